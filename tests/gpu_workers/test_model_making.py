"""A GGUF file becomes a directory that the engine serves; what is no such file is named."""

import json
from pathlib import Path

import pytest

from gpu_workers.engine import Engine
from gpu_workers.model_making import MakingError, make_from_gguf
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
