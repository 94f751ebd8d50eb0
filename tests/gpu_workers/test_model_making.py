"""A GGUF file becomes a directory that the engine serves; what is no such file is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.engine import Engine
from gpu_workers.model_making import MakingError, make_from_gguf
from tentalis.core.tool_calls import WrittenCall, read_written_calls, write_tool
from tests.gpu_workers.small_gguf import PIECES, write_gguf

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
