"""Random models of 2 MB at most as GGUF files, written on the spot."""

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np

WIDTH, LAYERS, INNER, HEADS, HEAD_WIDTH = 32, 2, 64, 2, 16
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]
PIECES = [
    *SPECIAL,
    *(f"<0x{byte:02X}>" for byte in range(256)),
    *("\n\n", "\n", "▁"),
    *(chr(code) for code in range(33, 127)),
]


def write_llama(path: Path, *, divisors: Sequence[float] = (), stretch: tuple[str, float] | None = None) -> None:
    """Llama's architecture with one layer, heads of 64 numbers and Llama 3's base of positions.

    Args:
        divisors: of the frequencies of positions, as llama.cpp keeps Llama 3's way of stretching them.
        stretch: the way and the factor that the header names.
    """
    width, words = 64, ["<s>", "</s>", *map(chr, range(97, 123)), "Ġ", "ab"]
    draw = np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(131_072)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(width)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500_000.0)
    writer.add_rope_dimension_count(width)
    writer.add_vocab_size(len(words))
    if stretch is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType(stretch[0]))
        writer.add_rope_scaling_factor(stretch[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(words)
    writer.add_token_merges(["a b"])
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(words) - 2))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    own = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(words), width), "output_norm": (width,)}
    shapes |= {f"blk.0.{name}": (width, width) for name in own}
    shapes |= {f"blk.0.{name}": (width,) for name in ("attn_norm", "ffn_norm")}
    for name, shape in shapes.items():
        values = np.ones(shape, np.float32) if len(shape) == 1 else draw.normal(0, 0.1, shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", values)
    if divisors:
        writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gguf(
    path: Path, *, template: str = "", vocabulary: int = len(PIECES), layers: int = LAYERS, stretched_by: float = 0.0
) -> None:
    """Gemma 3's architecture in float32.

    Args:
        vocabulary: rows of the embedding, beside the tokens that the tokenizer has.
        stretched_by: factor of the linear way that its larger models stretch positions; 0: the header names none.
    """
    draw = np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_sliding_window(16)
    if stretched_by:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(stretched_by)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([-float(number) for number in range(len(PIECES))])
    kinds = [gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.BYTE] * 256
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * (len(PIECES) - len(kinds))])
    for add, number in ((writer.add_pad_token_id, 0), (writer.add_eos_token_id, 1), (writer.add_bos_token_id, 2)):
        add(number)
    writer.add_unk_token_id(3)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    if template:
        writer.add_chat_template(template)
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (vocabulary, WIDTH), "output_norm": (WIDTH,)}
    for layer in range(layers):
        own = {"attn_q": (HEADS * HEAD_WIDTH, WIDTH), "attn_k": (HEAD_WIDTH, WIDTH), "attn_v": (HEAD_WIDTH, WIDTH)}
        own |= {"attn_output": (WIDTH, HEADS * HEAD_WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH)}
        norms: dict[str, tuple[int, ...]] = {"attn_q_norm": (HEAD_WIDTH,), "attn_k_norm": (HEAD_WIDTH,)}
        norms |= dict.fromkeys(("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), (WIDTH,))
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in (own | norms | {"ffn_down": (WIDTH, INNER)}).items()}
    for name, shape in shapes.items():
        values = np.ones(shape, np.float32) if len(shape) == 1 else draw.normal(0, 0.1, shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
