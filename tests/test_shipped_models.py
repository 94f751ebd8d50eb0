"""Models that come with Tentalis are among those that every home keeps."""

from pathlib import Path

import pytest

from tentalis import kept_models
from tentalis.kept_models import SHIPPED, KeptModelError, find_model, link_shipped, models_directory, remove_model

[NAME] = SHIPPED


def test_they_are_linked_once_and_anew_where_tentalis_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_shipped(tmp_path)
    link_shipped(tmp_path)
    link = models_directory(tmp_path) / NAME
    assert link.readlink() == SHIPPED[NAME]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(kept_models, "SHIPPED", {NAME: elsewhere})
    link_shipped(tmp_path)
    assert link.readlink() == elsewhere


def test_one_of_the_same_name_that_somebody_keeps_stays(tmp_path: Path) -> None:
    own = models_directory(tmp_path) / NAME
    own.mkdir(parents=True)
    link_shipped(tmp_path)
    assert not own.is_symlink()


def test_it_is_not_removed(tmp_path: Path) -> None:
    link_shipped(tmp_path)
    kept = find_model(tmp_path, NAME)
    with pytest.raises(KeptModelError, match="apprentice comes with Tentalis"):
        remove_model(kept)
    assert kept.directory.is_dir()
