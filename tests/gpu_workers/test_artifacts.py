import hashlib
from pathlib import Path

import pytest

from gpu_workers.artifacts import (
    ArtifactError,
    hash_files,
    path_from_uri,
    publish_directory,
    read_checked,
    staged_directory,
    write_file,
)


def test_a_file_uri_with_odd_characters_names_its_path(tmp_path: Path) -> None:
    odd = tmp_path / "a b%c"
    assert path_from_uri(odd.as_uri()) == odd


@pytest.mark.parametrize("uri", ["/plain/path", "s3://bucket/x", "file://host/x", "file:relative", ""])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ArtifactError, match="wanted a URI like"):
        path_from_uri(uri)


def test_a_file_is_read_only_under_its_digest(tmp_path: Path) -> None:
    write_file(tmp_path / "deep" / "file", b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    assert read_checked(tmp_path / "deep" / "file", sha256=digest) == b"content"
    assert hash_files([tmp_path / "deep" / "file"]) == digest
    with pytest.raises(ArtifactError, match="must hash to abc"):
        read_checked(tmp_path / "deep" / "file", sha256="abc")
    with pytest.raises(ArtifactError, match="cannot read"):
        read_checked(tmp_path / "none", sha256=digest)
    with pytest.raises(ArtifactError, match="cannot read"):
        hash_files([tmp_path / "none"])


def test_a_directory_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with staged_directory(tmp_path) as staging:
        (staging / "file").write_text("content")
        assert not (tmp_path / "final").exists()
        publish_directory(staging, tmp_path / "final")
    assert [path.name for path in tmp_path.iterdir()] == ["final"]

    def fail_half_way() -> None:
        with staged_directory(tmp_path) as staging:
            (staging / "file").write_text("half")
            raise ValueError("disk on fire")

    with pytest.raises(ValueError, match="on fire"):
        fail_half_way()
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_publishing_the_same_name_twice_keeps_the_first(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with staged_directory(tmp_path) as staging:
            (staging / "file").write_text(content)
            publish_directory(staging, tmp_path / "final")
    assert (tmp_path / "final" / "file").read_text() == "first"


def test_a_place_that_cannot_be_written_is_named() -> None:
    with pytest.raises(ArtifactError, match="cannot write /proc/no/file"):
        write_file(Path("/proc/no/file"), b"")
    with pytest.raises(ArtifactError, match="cannot write in /proc/no"), staged_directory(Path("/proc/no")):
        pass
