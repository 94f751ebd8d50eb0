"""What fits where: memory that serving and training a decoder take, computed from its shape.

Bounds from the arithmetic, not measurements: what libraries keep besides is covered by `OVERHEAD_BYTES` and a share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

GIB: Final = 2**30
OVERHEAD_BYTES: Final = 1.5 * GIB
"""Of a process that computes on a GPU: its libraries and their work space."""
ROOM_SHARE: Final = 0.9
"""Of a memory that can be filled: the rest is lost between the pieces."""
OPTIMISER_BYTES: Final = 16
"""A trained number in float32, its gradient, and AdamW's two means of it."""
CHUNK_TOKENS: Final = 1_024
"""Logits that exist at a time, with their gradient, in float32."""
RANK: Final = 16
SINGLE_BYTES: Final = 4
"""A number in float32."""
WANTED_FIELDS: Final = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
SHAPE_FIELDS: Final = (*WANTED_FIELDS, "model_type", "num_key_value_heads", "head_dim", "tie_word_embeddings")
"""Of a Hugging Face config: what `read_shape` reads, and of that what it cannot do without."""


class SizesError(ValueError):
    """A config that says too little; the message says what was wanted and what was found."""


@dataclass(frozen=True)
class DecoderShape:
    """Numbers that decide what a decoder of the Llama family and its kin takes.

    Args:
        inner: width of the MLP. is_tied: the embedding is the output layer too.
        norms: of a layer, each as wide as the model. norms_heads: queries and keys have one each.
    """

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    inner: int
    vocabulary: int
    is_tied: bool = True
    norms: int = 2
    norms_heads: bool = False

    @property
    def linears(self) -> Sequence[tuple[int, int]]:
        """(in, out) of each linear of a layer: q, k, v, o, gate, up, down."""
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        attention = [(self.width, queries), (self.width, keys), (self.width, keys), (queries, self.width)]
        return [*attention, *[(self.width, self.inner)] * 2, (self.inner, self.width)]

    @property
    def parameters(self) -> int:
        norms = self.norms * self.width + (2 * self.head_width if self.norms_heads else 0)
        layer = sum(first * second for first, second in self.linears) + norms
        return (1 if self.is_tied else 2) * self.vocabulary * self.width + self.layers * layer + self.width

    def count_adapter(self, rank: int = RANK) -> int:
        """Numbers of a LoRA adapter on all linears."""
        return self.layers * rank * sum(first + second for first, second in self.linears)

    def count_kept(self, *, number_bytes: int, is_fused: bool) -> int:
        """Numbers that a token keeps of each layer until the backward pass, as the trainer's own forward computes it.

        What goes into each norm, and what comes out of it where a linear reads it; what the product for queries, keys
        and values puts out, queries and keys turned, and what attention makes of them, twice where that is narrower
        than the model; gate, up and their product. The few numbers of low rank, and one a head or norm, are left out.

        Args:
            number_bytes: of a number that flows through it.
            is_fused: norms and gate are one kernel each, as on a GPU. Else the activation of the gate is kept too, and
                in half precision what goes into a norm is kept in single.
        """
        queries, heads = self.heads * self.head_width, (self.heads + self.kv_heads) * self.head_width
        attention = 3 * heads + (queries if queries < self.width else 0)
        numbers = (2 + self.norms) * self.width + attention + 3 * self.inner
        if is_fused:
            return numbers
        singles = self.norms * self.width + (2 * heads if self.norms_heads else 0)
        return numbers + self.inner + (singles if number_bytes < SINGLE_BYTES else 0)

    def count_token(self, *, number_bytes: int, is_fused: bool) -> int:
        """Bytes that a token keeps of all layers; see `count_kept`."""
        return self.layers * number_bytes * self.count_kept(number_bytes=number_bytes, is_fused=is_fused)


def read_shape(name: str, config: Mapping[str, Any]) -> DecoderShape:
    """Of a Hugging Face config.

    Raises:
        SizesError: it lacks one of the numbers.
    """
    told = config.get("text_config")
    inner: Mapping[str, Any] = told if isinstance(told, Mapping) else config
    if missing := [field for field in WANTED_FIELDS if not isinstance(inner.get(field), int)]:
        raise SizesError(f"{name}: wanted {', '.join(WANTED_FIELDS)} in config.json, found no {', '.join(missing)}")
    heads, kind = inner["num_attention_heads"], str(inner.get("model_type", ""))
    is_gemma = kind.startswith("gemma3")
    return DecoderShape(
        name=name,
        layers=inner["num_hidden_layers"],
        width=inner["hidden_size"],
        heads=heads,
        kv_heads=inner.get("num_key_value_heads") or heads,
        head_width=inner.get("head_dim") or inner["hidden_size"] // heads,
        inner=inner["intermediate_size"],
        vocabulary=inner["vocab_size"],
        is_tied=bool(inner.get("tie_word_embeddings", is_gemma)),
        norms=4 if is_gemma else 2,
        norms_heads=is_gemma or kind == "qwen3",
    )


class Machine(NamedTuple):
    """Where something is to fit.

    Args:
        room_bytes: of one memory. number_bytes: of a weight and of what flows through: 2 in bfloat16.
        is_fused: as in `DecoderShape.count_kept`.
        copies: of the weights: 2 where the same memory serves them while it trains.
    """

    name: str
    room_bytes: int
    number_bytes: int = 2
    is_fused: bool = True
    copies: int = 1
    overhead_bytes: float = OVERHEAD_BYTES


MACHINES: Final = (
    Machine("laptop, 16 GB", 16 * GIB, number_bytes=4, is_fused=False, copies=2, overhead_bytes=6 * GIB),
    Machine("GPU, 8 GB", 8 * GIB),
    Machine("GPU, 24 GB", 24 * GIB),
    Machine("GPU, 80 GB", 80 * GIB),
)
"""A laptop computes in float32 on its CPU, serves and trains from one memory, and has other things to do with it."""


def count_fixed(shape: DecoderShape, machine: Machine, *, rank: int = RANK) -> float:
    """Bytes that training takes whatever the batch: weights, adapter with its optimiser, a chunk of logits."""
    weights = machine.copies * machine.number_bytes * shape.parameters
    logits = 2 * 4 * CHUNK_TOKENS * shape.vocabulary
    return weights + OPTIMISER_BYTES * shape.count_adapter(rank) + logits + machine.overhead_bytes


def count_tokens(shape: DecoderShape, machine: Machine, *, rank: int = RANK) -> int:
    """Tokens of a micro-batch that can be trained on at once, prompts and answers together; 0: not even one."""
    room = ROOM_SHARE * machine.room_bytes - count_fixed(shape, machine, rank=rank)
    token = shape.count_token(number_bytes=machine.number_bytes, is_fused=machine.is_fused)
    return max(int(room // token), 0)


SHAPES: Final = (
    DecoderShape("SmolLM2-135M", 30, 576, 9, 3, 64, 1_536, 49_152),
    DecoderShape("gemma-3-270m", 18, 640, 4, 1, 256, 2_048, 262_144, norms=4, norms_heads=True),
    DecoderShape("Qwen3-0.6B", 28, 1_024, 16, 8, 128, 3_072, 151_936, norms_heads=True),
    DecoderShape("Llama-3.2-1B", 16, 2_048, 32, 8, 64, 8_192, 128_256),
    DecoderShape("Qwen3-1.7B", 28, 2_048, 16, 8, 128, 6_144, 151_936, norms_heads=True),
    DecoderShape("Qwen3-4B", 36, 2_560, 32, 8, 128, 9_728, 151_936, norms_heads=True),
    DecoderShape("Mistral-7B-v0.3", 32, 4_096, 32, 8, 128, 14_336, 32_768, is_tied=False),
    DecoderShape("Llama-3.1-8B", 32, 4_096, 32, 8, 128, 14_336, 128_256, is_tied=False),
    DecoderShape("Qwen3-14B", 40, 5_120, 40, 8, 128, 17_408, 151_936, is_tied=False, norms_heads=True),
    DecoderShape("Qwen3-32B", 64, 5_120, 64, 8, 128, 25_600, 151_936, is_tied=False, norms_heads=True),
)
"""Some that people ask about, by their published configs."""
LEAST_TOKENS: Final = 512
"""Of a micro-batch that is worth the name: a prompt with its answer."""


def make_rows(shapes: Sequence[DecoderShape] = SHAPES, *, rank: int = RANK) -> list[dict[str, str]]:
    """A row a model: its weights in bfloat16, what is trained of it, and how many tokens fit at once where."""
    rows = []
    for shape in shapes:
        adapter = shape.count_adapter(rank)
        row = {
            "model": shape.name,
            "parameters": say_count(shape.parameters),
            "weights": f"{2 * shape.parameters / GIB:.1f} GiB",
            f"adapter, rank {rank}": f"{say_count(adapter)}, {OPTIMISER_BYTES * adapter / GIB:.2f} GiB",
            "a token": f"{shape.count_token(number_bytes=2, is_fused=True) / 2**20:.2f} MiB",
        }
        rows.append(row | {machine.name: _say_tokens(count_tokens(shape, machine, rank=rank)) for machine in MACHINES})
    return rows


def say_count(count: int) -> str:
    """So many parameters: 1.2 B, 268.1 M, 42,112."""
    if count >= 10**9:
        return f"{count / 1e9:.1f} B"
    return f"{count / 1e6:.1f} M" if count >= 10**6 else f"{count:,}"


def say_bytes(size: int) -> str:
    """In the largest unit of which there is one: 1.53 GiB, 1,022 MiB, 84.2 KiB, 512 bytes."""
    for unit, name in ((GIB, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            count = size / unit
            digits = 2 if count < 10 else 1 if count < 100 else 0
            return f"{count:,.{digits}f} {name}"
    return f"{size:,} bytes"


def _say_tokens(tokens: int) -> str:
    """Rounded down to two digits: it is a bound."""
    if tokens < LEAST_TOKENS:
        return "no"
    step = 10 ** (len(str(tokens)) - 2)
    return f"{tokens // step * step:,}"


def write_table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Lines of a Markdown table."""
    names = list(rows[0])
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *([row[name] for name in names] for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]
