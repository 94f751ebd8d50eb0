"""What fits where is computed from shapes, and the guide shows what is computed."""

from pathlib import Path

import pytest

from tentalis.core.sizes import (
    GIB,
    MACHINES,
    SHAPES,
    DecoderShape,
    Machine,
    SizesError,
    count_fixed,
    count_tokens,
    make_rows,
    read_shape,
    say_bytes,
    say_count,
    write_table,
)

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guides" / "sizes.md"
PUBLISHED = {
    "SmolLM2-135M": 134_515_008,
    "gemma-3-270m": 268_098_176,
    "Qwen3-0.6B": 596_049_920,
    "Llama-3.2-1B": 1_235_814_400,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Llama-3.1-8B": 8_030_261_248,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
}
"""Numbers in the checkpoints, as the hub tells them."""


def test_parameters_are_those_of_the_published_checkpoints() -> None:
    assert {shape.name: shape.parameters for shape in SHAPES} == PUBLISHED


def test_a_small_shape_by_hand() -> None:
    shape = DecoderShape("hand", 2, 8, 2, 1, 4, 16, 100)
    assert shape.parameters == 100 * 8 + 2 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16 + 2 * 8) + 8
    assert shape.count_adapter(3) == 2 * 3 * (16 + 12 + 12 + 16 + 24 + 24 + 24)
    assert shape.count_kept(number_bytes=2, is_fused=True) == 4 * 8 + 3 * (2 + 1) * 4 + 3 * 16
    assert shape.count_kept(number_bytes=4, is_fused=False) == 4 * 8 + 3 * (2 + 1) * 4 + 4 * 16
    machine = Machine("box", 10**9, overhead_bytes=0)
    fixed = 2 * shape.parameters + 16 * shape.count_adapter(16) + 2 * 4 * 1_024 * 100
    assert count_fixed(shape, machine) == fixed
    assert count_tokens(shape, machine) == int((9 * 10**8 - fixed) // (2 * 2 * (4 * 8 + 36 + 3 * 16)))


def test_more_memory_never_fits_less_and_a_larger_model_never_more() -> None:
    for shape in SHAPES:
        fits = [count_tokens(shape, Machine("box", size * GIB)) for size in (8, 24, 80)]
        assert fits == sorted(fits)
    for machine in MACHINES:
        sized = sorted(SHAPES, key=lambda shape: shape.count_token(number_bytes=2, is_fused=True))
        fits = [count_tokens(shape, machine) for shape in sized if shape.vocabulary == 151_936]
        assert fits == sorted(fits, reverse=True)


def test_a_config_is_read_and_one_that_says_too_little_is_named() -> None:
    config = {
        "model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151_936,
        "tie_word_embeddings": True,
    }  # fmt: skip
    assert read_shape("mine", config).parameters == PUBLISHED["Qwen3-0.6B"]
    assert read_shape("mine", {"text_config": config}).parameters == PUBLISHED["Qwen3-0.6B"]
    with pytest.raises(SizesError, match="found no intermediate_size"):
        read_shape("mine", {name: value for name, value in config.items() if name != "intermediate_size"})


def test_a_size_is_said_in_the_unit_that_fits() -> None:
    said = {0: "0 bytes", 512: "512 bytes", 86_228: "84.2 KiB", 1_072_000_000: "1,022 MiB", 3 * 2**29: "1.50 GiB"}
    assert {size: say_bytes(size) for size in said} == said
    assert [say_count(count) for count in (42_112, 268_098_176, 1_235_814_400)] == ["42,112", "268.1 M", "1.2 B"]


def test_the_guide_shows_what_is_computed() -> None:
    text = GUIDE.read_text("utf-8")
    missing = [line for line in write_table(make_rows()) if line not in text]
    assert not missing, "\n".join(["docs/guides/sizes.md wants:", *missing])
