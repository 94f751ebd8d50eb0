"""A GGUF file becomes a directory that the engine serves; what is no such file is named."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.engine import Engine
from gpu_workers.engine.checkpoint import Rope, plain_shape, read_config
from gpu_workers.model_making import MakingError, make_from_gguf
from tentalis.core.tool_calls import WrittenCall, read_written_calls, write_tool
from tests.gpu_workers.small_gguf import PIECES, write_gguf, write_llama

pytestmark = pytest.mark.torch
TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": " ho "}, {"role": "user", "content": "?"}]


def test_a_file_without_a_template_is_served_with_the_plain_one(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="plain")
    assert "quantization_config" not in json.loads((tmp_path / "made" / "config.json").read_bytes())
    engine = Engine("m", tmp_path / "made")
    blank = PIECES.index("\n\n")
    assert engine.end_ids == {1, blank}
    assert engine.codec.render_chat(TURNS) == "<bos>User: hi\n\nAssistant: ho\n\nUser: ?\n\nAssistant:"
    (prompt,) = engine.codec.encode([engine.codec.render_chat(TURNS)], add_special_tokens=False)
    assert prompt[0] == 2
    assert prompt.count(blank) == 3
    assert len(engine.generate([prompt], n=2, max_tokens=4, seed=1)[0]) == 2


def test_the_plain_template_writes_tools_calls_and_results_as_they_are_read(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="plain")
    codec = Engine("m", tmp_path / "made").codec
    assert codec.takes_tools
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {"at": "a"}}}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "b"},
    ]
    tool = write_tool("look", "Look.", {"type": "object"})
    told = codec.render_chat(turns, variables={"tools": [tool]})
    head, _, rest = told.partition("\n\n")
    assert head.startswith("<bos>Tools, each used by writing <call>its name {its arguments}</call>:\n{")
    assert json.loads(head.splitlines()[1]) == tool["function"]
    assert rest == 'User: hi\n\nAssistant: <call>look {"at": "a"}</call>\n\nResult: b\n\nAssistant:'
    written = read_written_calls('<call>look {"at": "a"}</call>')
    assert written.calls == [WrittenCall("look", '{"at": "a"}')]


def test_the_files_own_template_stays(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", template="{{ bos_token }}own")
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="keep")
    assert Engine("m", tmp_path / "made").codec.render_chat(TURNS) == "<bos>own"


def test_a_file_without_a_template_is_refused_where_none_was_said(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    with pytest.raises(MakingError, match="holds no chat template"):
        make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="keep")
    assert not (tmp_path / "made").exists()


def test_half_a_file_is_named(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MakingError, match=r"m\.gguf cannot be read as a model"):
        make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="plain")


def divide_as_llama_3(factor: float) -> list[float]:
    """As llama.cpp's converter computes them, from wave lengths."""
    found = []
    for pair in range(0, 64, 2):
        wave = 2 * math.pi * 500_000.0 ** (pair / 64)
        share = min(1.0, max(0.0, (8192 / wave - 1) / (4 - 1)))
        found.append(1 / ((1 - share) / factor + share))
    return found


def test_llama_3_keeps_its_way_of_stretching_positions(tmp_path: Path) -> None:
    """llama.cpp has it as a tensor, which Hugging Face's reader drops."""
    write_llama(tmp_path / "m.gguf", divisors=divide_as_llama_3(32.0))
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="none")
    shape = plain_shape(read_config(tmp_path / "made"))
    assert shape is not None
    assert shape.ropes == (Rope(500_000.0, 32.0, 1.0, 4.0, 8192),)


def test_divisors_that_change_nothing_are_no_stretch(tmp_path: Path) -> None:
    write_llama(tmp_path / "m.gguf", divisors=[1.0] * 32, stretch=("none", 1.0))
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="none")
    shape = plain_shape(read_config(tmp_path / "made"))
    assert shape is not None
    assert shape.ropes == (Rope(500_000.0),)


def test_positions_that_are_stretched_evenly_stay_so(tmp_path: Path) -> None:
    write_llama(tmp_path / "m.gguf", stretch=("linear", 4.0))
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="none")
    shape = plain_shape(read_config(tmp_path / "made"))
    assert shape is not None
    assert shape.ropes == (Rope(500_000.0, 4.0),)


def test_of_a_model_with_windows_the_layers_without_one_alone_are_stretched(tmp_path: Path) -> None:
    """Gemma 3 of 4 billion weights and more."""
    write_gguf(tmp_path / "m.gguf", layers=6, stretched_by=8.0)
    make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="none")
    shape = plain_shape(read_config(tmp_path / "made"))
    assert shape is not None
    assert shape.ropes == (*[Rope(10_000.0)] * 5, Rope(1_000_000.0, 8.0))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"divisors": [1.0] * 16 + [8.0] * 16}, "by rope_freqs.weight in another way than Llama 3 does"),
        ({"stretch": ("yarn", 16.0)}, r"stretches positions \(yarn, by 16\), which is lost"),
    ],
)
def test_a_stretch_that_would_be_lost_is_refused(tmp_path: Path, told: dict[str, Any], words: str) -> None:
    write_llama(tmp_path / "m.gguf", **told)
    with pytest.raises(MakingError, match=words):
        make_from_gguf(tmp_path / "m.gguf", tmp_path / "made", template="none")
    assert not (tmp_path / "made").exists()
