"""Models kept in the home: `models/NAME/` is a Hugging Face directory with a manifest of where it is from.

The command line writes them, the web offers them, the engine serves them; each reads the same directories.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

MANIFEST: Final = "tentalis.json"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BLOCK_BYTES = 2**20


class KeptModelError(Exception):
    """A model cannot be kept, found or trusted; the message says what was wanted and what was found."""


@dataclass(frozen=True)
class KeptModel:
    """What a manifest says.

    Args:
        source: where it came from, in words: a package, a hub's name, a directory.
        source_sha256: of the one file it was made from; "" where it was a directory.
        licence: under which it stands; "" where nothing said.
        template: where its chat template comes from, in words.
        files: name -> sha256 of what lies beside the manifest.
    """

    name: str
    directory: Path
    source: str
    source_sha256: str
    licence: str
    template: str
    made_at: str
    files: Mapping[str, str]

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for name in self.files if (path := self.directory / name).is_file())

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"directory": str(self.directory), "size_bytes": self.size_bytes}


def models_directory(home: Path) -> Path:
    return home / "models"


def require_name(name: str) -> str:
    """Raises KeptModelError unless it may be a model's."""
    if not NAME.fullmatch(name):
        raise KeptModelError(
            f"a model's name is up to 100 letters, digits, dots, lines and underscores; found {name!r}"
        )
    return name


def list_models(home: Path) -> list[KeptModel]:
    """Those with a readable manifest, by name."""
    root = models_directory(home)
    found = []
    for directory in sorted(root.iterdir()) if root.is_dir() else ():
        if NAME.fullmatch(directory.name) and (directory / MANIFEST).is_file():
            try:
                found.append(read_manifest(directory))
            except KeptModelError:
                continue
    return found


def find_model(home: Path, name: str) -> KeptModel:
    """Raises KeptModelError where there is none of that name."""
    directory = models_directory(home) / require_name(name)
    if not (directory / MANIFEST).is_file():
        known = ", ".join(model.name for model in list_models(home)) or "none"
        raise KeptModelError(f"no model {name!r} is kept here; there are: {known}")
    return read_manifest(directory)


def read_manifest(directory: Path) -> KeptModel:
    """Raises KeptModelError where it is none."""
    path = directory / MANIFEST
    try:
        told = json.loads(path.read_bytes())
        files = {str(name): str(sha256) for name, sha256 in told["files"].items()}
        texts = {field: str(told[field]) for field in ("source", "source_sha256", "licence", "template", "made_at")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KeptModelError(f"{path} is no manifest of a kept model: {type(error).__name__}: {error}") from None
    return KeptModel(name=directory.name, directory=directory, files=files, **texts)


def write_manifest(
    directory: Path, *, source: str, source_sha256: str, licence: str, template: str, made_at: str
) -> None:
    """Hash what lies in a directory and say where it is from."""
    files = {path.name: hash_files([path]) for path in sorted(directory.iterdir()) if path.name != MANIFEST}
    told = {"source": source, "source_sha256": source_sha256, "licence": licence, "template": template}
    text = json.dumps(told | {"made_at": made_at, "files": files}, indent=2, ensure_ascii=False)
    (directory / MANIFEST).write_text(text + "\n", encoding="utf-8")


def find_faults(model: KeptModel) -> list[str]:
    """Read every file of a kept model again; in words, what is not as its manifest says or what a chat lacks."""
    faults = []
    for name, wanted in model.files.items():
        path = model.directory / name
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif (found := hash_files([path])) != wanted:
            faults.append(f"{name} was changed: wanted sha256 {wanted}, found {found}")
    if "config.json" not in model.files:
        faults.append("no config.json: nothing says what family it is")
    if not any(name.endswith(".safetensors") for name in model.files):
        faults.append("no weights: wanted *.safetensors")
    if "tokenizer.json" not in model.files:
        faults.append("no tokenizer: wanted tokenizer.json")
    if not _has_chat_template(model):
        faults.append("no chat template: wanted chat_template.jinja, or one in tokenizer_config.json")
    return faults


def _has_chat_template(model: KeptModel) -> bool:
    if "chat_template.jinja" in model.files:
        return True
    try:
        told = json.loads((model.directory / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and bool(told.get("chat_template"))


def hash_files(paths: Sequence[Path]) -> str:
    """One lower-case hex SHA-256 over the files' bytes in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()
