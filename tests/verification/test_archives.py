"""Repositories that come as one file: what is taken of it, and what is refused before it takes any room."""

import io
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tentalis.core.swe.repo_tasks import RepoTaskError
from tentalis.verification import archives, loading
from tentalis.verification.archives import is_bundle, unpack_repo

FILES: Mapping[str, bytes] = {"calc.py": b"x = 1\n", "tests/test_calc.py": b"", "lib/a b.txt": b"\xff\x00"}


def write_tar(place: Path, files: Mapping[str, bytes], *, mode: str = "w:gz") -> Path:
    with tarfile.open(place, mode) as tar:  # type: ignore[call-overload]
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return place


def write_zip(place: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return place


def write_bundle(place: Path, files: Mapping[str, bytes]) -> str:
    """Its commit."""
    clone = place.with_suffix("")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(clone)]
    for path, content in files.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_bytes(content)
    for words in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "bundle", "create", "--quiet", str(place), "--all"], check=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w"])
def test_a_tar_is_read_whatever_packs_it(tmp_path: Path, mode: str) -> None:
    assert unpack_repo(write_tar(tmp_path / "a", FILES, mode=mode), "", touched=["calc.py"]) == FILES


def test_one_directory_around_all_is_left_out_unless_it_is_the_repositorys_own(tmp_path: Path) -> None:
    place = write_zip(tmp_path / "a", {f"calc-1/{path}": content for path, content in FILES.items()})
    assert unpack_repo(place, "", touched=["calc.py"]) == FILES
    assert unpack_repo(place, "", touched=["calc-1/calc.py"]).keys() == {f"calc-1/{path}" for path in FILES}


def test_links_and_what_git_keeps_are_left_out(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for path, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
        for path in (".git/config", "calc.py"):
            tar.addfile(tarfile.TarInfo(path))
    assert unpack_repo(tmp_path / "a.tar", "", touched=["calc.py"]) == {"calc.py": b""}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("calc.py", b"")
    assert unpack_repo(tmp_path / "a.zip", "", touched=["calc.py"]) == {"calc.py": b""}


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_REPO_BYTES", 1_000)
    monkeypatch.setattr(loading, "MAX_REPO_BYTES", 1_000)
    large = {"calc.py": bytes(2_000)}
    commit = write_bundle(tmp_path / "a.bundle", large)
    assert is_bundle(tmp_path / "a.bundle")
    for place in (write_tar(tmp_path / "a.tgz", large), write_zip(tmp_path / "a.zip", large), tmp_path / "a.bundle"):
        with pytest.raises(RepoTaskError, match="repo: wanted at most 50,000 files of 0 MiB, found more"):
            unpack_repo(place, commit, touched=["calc.py"])
    monkeypatch.undo()
    assert unpack_repo(tmp_path / "a.bundle", commit, touched=["calc.py"]) == large


@pytest.mark.parametrize("path", ["../calc.py", "/calc.py", "a/../../b"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, path: str) -> None:
    for write in (write_tar, write_zip):
        with pytest.raises(RepoTaskError, match="repo: wanted paths within the archive"):
            unpack_repo(write(tmp_path / write.__name__, {path: b""}), "", touched=[])


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2", "w", "zip"])
def test_what_was_spoilt_on_its_way_is_refused_in_words(tmp_path: Path, mode: str) -> None:
    files = {"calc-é.py": Random(0).randbytes(30_000), "more.py": b"x = 1\n" * 1_000}
    place = tmp_path / "a"
    whole = (write_zip(place, files) if mode == "zip" else write_tar(place, files, mode=mode)).read_bytes()
    rng = Random(mode)
    for _ in range(60):
        spoilt = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        place.write_bytes(spoilt)
        with suppress(RepoTaskError):
            unpack_repo(place, "", touched=[])


def test_a_tar_that_leads_back_into_itself_is_refused(tmp_path: Path) -> None:
    place = write_tar(tmp_path / "a.tar", {"calc.py": b"", "b.py": b""}, mode="w")
    head = bytearray(place.read_bytes()[512:1024])
    head[124:136], head[148:156] = b"\xff" * 10 + b"\xfe\0", b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    place.write_bytes(place.read_bytes()[:512] + head + bytes(1024))
    with pytest.raises(RepoTaskError, match="leads back to where it begins"):
        unpack_repo(place, "", touched=[])
