"""The desk's tokenizer: byte-level BPE over words and two-digit groups; the desk's tags are ordinary added tokens."""

import json
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
TAGS = ("<step>", "</step>", "<answer>", "</answer>", "<call>", "</call>", "<result>", "</result>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SPLIT = r" ?[0-9]{1,2}| ?[A-Za-z]+| ?[^A-Za-z0-9\s]|\s"
_MOST_TOKENS = 640


def build_tokenizer(
    texts: Iterable[str],
    *,
    tags: Sequence[str] = TAGS,
    template: str = CHAT_TEMPLATE,
    most_tokens: int = _MOST_TOKENS,
    context: int = 256,
) -> PreTrainedTokenizerFast:
    """Train the tokenizer on a corpus; the same corpus gives the same ids.

    The tags must not be *special*: decoding with `skip_special_tokens` would drop them, and with them every reward.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=most_tokens,
        special_tokens=[*SPECIAL_TOKENS, *tags],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    state = json.loads(tokenizer.to_str())
    for token in state["added_tokens"]:
        token["special"] = token["content"] in SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        pad_token=SPECIAL_TOKENS[0],
        eos_token=SPECIAL_TOKENS[1],
        chat_template=template,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=context,
    )
