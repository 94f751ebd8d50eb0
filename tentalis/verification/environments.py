"""What tests run in: an interpreter of this machine, and wheels with their hashes known beforehand."""

import hashlib
import io
import re
import shutil
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tentalis.core.canon import content_hash
from tentalis.core.swe.repo_tasks import Environment

PACKAGES: Final = "/opt/site"
"""Where wheels lie in a sandbox."""
WHEELHOUSE: Final = "wheelhouse"
MAX_WHEEL_BYTES: Final = 512 * 2**20
MAX_UNPACKED_BYTES: Final = 2 * 2**30
_VERSION: Final = re.compile(r"3\.\d{1,2}")
_BINARY: Final = re.compile(r"python3(\.\d{1,2})?")
_SHOWN: Final = PurePosixPath("/usr")
"""Of this machine, what every sandbox sees."""


class BuildError(Exception):
    """An environment cannot be had here: what was wanted, what was found. It says nothing of a patch."""


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine.

    Args:
        path: where it is, in a sandbox too; brought: directories that a sandbox does not see by itself.
    """

    path: Path
    brought: Sequence[Path] = ()


def find_interpreter(wanted: str) -> Interpreter:
    """The Python of a version or a path; "": of the machine.

    Raises:
        BuildError: there is none.
    """
    if wanted.startswith("/"):
        found = [Path(wanted)] if Path(wanted).exists() else []
    elif wanted and not _VERSION.fullmatch(wanted):
        raise BuildError(f"python: wanted a version such as 3.11 or a whole path, found {wanted!r:.80}")
    else:
        found = list(_list_interpreters(wanted))
    if not found:
        raise BuildError(f"python: wanted {wanted or '3.8 or newer'} on this machine, found none")
    path = found[0].resolve()
    if not _BINARY.fullmatch(path.name):
        raise BuildError(f"python: wanted an interpreter such as /usr/bin/python3.11, found {path}")
    if PurePosixPath(path).is_relative_to(_SHOWN):
        return Interpreter(path)
    library = path.parent.parent / "lib"
    brought = [path, library / path.name, *sorted(library.glob("libpython*.so*"))]
    if not brought[1].is_dir():
        raise BuildError(f"python: wanted the library of {path} at {brought[1]}, found none")
    return Interpreter(path, brought)


def _list_interpreters(version: str) -> Sequence[Path]:
    names = [f"python{version}"] if version else ["python3"]
    shown = [Path(place) / name for place in ("/usr/bin", "/usr/local/bin") for name in names]
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    others = [own] if not version or own.name == names[0] else []
    installed = shutil.which(names[0])
    if others and PurePosixPath(own).is_relative_to(_SHOWN):  # ours has all that Python comes with
        shown = [own, *shown]
    return [one for one in (*shown, *others, *([Path(installed)] if installed else [])) if one.exists()]


def hash_environment(environment: Environment, interpreter: Interpreter) -> str:
    found = interpreter.path.stat()
    told = {name: value for name, value in vars(environment).items() if name != "python"}
    told = {**told, "wheels": dict(environment.wheels), "variables": dict(environment.variables)}
    told["plugins"] = list(environment.plugins)
    return content_hash([told, str(interpreter.path), found.st_size, found.st_mtime_ns])


def build_environment(environment: Environment, interpreter: Interpreter, wheelhouse: Path | None, root: Path) -> None:
    """Lay the wheels, and what of the interpreter a sandbox does not see, beneath the root of an image.

    Nothing of a wheel is run for that.

    Raises:
        BuildError: a wheel is not there, or is another.
    """
    if environment.image:
        raise BuildError(f"it wants the image {environment.image}, and no container engine is used here")
    for place in interpreter.brought:
        bring(place, root)
    for name, digest in sorted(environment.wheels.items()):
        _unpack(_read_wheel(name, digest, wheelhouse), name, root / PACKAGES.lstrip("/"))


def bring(place: Path, root: Path) -> None:
    """Copy a part of an interpreter beneath the root of an image, where it lies here."""
    target = root / str(place).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        leave = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib", "ensurepip", "config-*")
        shutil.copytree(place, target, symlinks=True, ignore=leave, dirs_exist_ok=True)
    else:
        shutil.copy(place, target)


def _read_wheel(name: str, digest: str, wheelhouse: Path | None) -> bytes:
    if "/" in name or not name.endswith(".whl"):
        raise BuildError(f"wheels: wanted the name of a wheel, found {name!r:.120}")
    place = None if wheelhouse is None else wheelhouse / name
    if place is None or not place.is_file():
        raise BuildError(f"wheels: wanted {name} in the task's {WHEELHOUSE}, found none")
    if place.stat().st_size > MAX_WHEEL_BYTES:
        raise BuildError(f"{name}: wanted at most {MAX_WHEEL_BYTES // 2**20} MiB, found more")
    content = place.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != digest:
        raise BuildError(f"{name}: wanted the one of sha256 {digest:.12}, found {found:.12}")
    return content


def _unpack(content: bytes, name: str, target: Path) -> None:
    size = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                path = _place_entry(entry.filename, name)
                if path is None or entry.is_dir():
                    continue
                size += entry.file_size
                if size > MAX_UNPACKED_BYTES:
                    raise BuildError(f"{name}: wanted at most {MAX_UNPACKED_BYTES // 2**30} GiB unpacked, found more")
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(archive.read(entry))
    except zipfile.BadZipFile:
        raise BuildError(f"{name}: wanted a wheel, found no archive") from None


def _place_entry(filename: str, name: str) -> str | None:
    """Where a file of a wheel goes; None: nowhere, as scripts, headers and what Python would run at its start."""
    parts = PurePosixPath(filename).parts
    if not parts or filename.startswith("/") or ".." in parts or "\0" in filename:
        raise BuildError(f"{name}: wanted paths within it, found {filename!r:.120}")
    if parts[0].endswith(".data"):
        if len(parts) < 3 or parts[1] not in {"purelib", "platlib"}:
            return None
        parts = parts[2:]
    return None if parts[-1].endswith(".pth") and len(parts) == 1 else "/".join(parts)
