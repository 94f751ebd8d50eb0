"""Models kept in the home: `models/NAME/` is a Hugging Face directory with a manifest of where it is from.

The command line writes them, the web offers them, the engine serves them; each reads the same directories.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tentalis.core.model_facts import ModelFacts
from tentalis.core.sizes import say_bytes, say_count

MANIFEST: Final = "tentalis.json"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
INDEX: Final = "model.safetensors.index.json"
FLOATS: Final = ("F32", "F16", "BF16", "F64")
"""Types of weights that can be served and trained on, as safetensors calls them."""
NO_TEMPLATE: Final = "none"
"""What a manifest says of a model that is kept without a chat template because somebody said so."""
SHIPPED: Final = {"apprentice": Path(__file__).resolve().parents[1] / "gpu_workers" / "apprentice" / "base"}
"""Models that come with Tentalis: every home keeps them, as links."""
_BLOCK_BYTES = 2**20
_MOST_HEAD_BYTES = 2**26


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
        facts: None where it was kept before anybody looked.
    """

    name: str
    directory: Path
    source: str
    source_sha256: str
    licence: str
    template: str
    made_at: str
    files: Mapping[str, str]
    facts: ModelFacts | None = None

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for name in self.files if (path := self.directory / name).is_file())

    @property
    def summary(self) -> str:
        """What it is, in a few words, for who chooses one; "" where nobody looked."""
        if self.facts is None:
            return ""
        size = f"{say_count(self.facts.parameters)} parameters, {say_bytes(self.facts.memory_bytes)} of memory"
        return f"{self.facts.family}, {size}"

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


def link_shipped(home: Path) -> None:
    """Keep the models that come with Tentalis, wherever it lies now. One of the same name that somebody keeps stays."""
    root = models_directory(home)
    root.mkdir(parents=True, exist_ok=True)
    for name, directory in SHIPPED.items():
        link = root / name
        if link.is_symlink() and link.readlink() != directory:
            link.unlink()
        if not (link.is_symlink() or link.exists()):
            link.symlink_to(directory, target_is_directory=True)


def find_model(home: Path, name: str) -> KeptModel:
    """Raises KeptModelError where there is none of that name."""
    directory = models_directory(home) / require_name(name)
    if not (directory / MANIFEST).is_file():
        known = ", ".join(model.name for model in list_models(home)) or "none"
        raise KeptModelError(f"no model {name!r} is kept here; there are: {known}")
    return read_manifest(directory)


def remove_model(model: KeptModel) -> None:
    """Out of sight at once, then off the disk: whoever lists models meanwhile finds it whole or not at all.

    Raises:
        KeptModelError: it comes with Tentalis.
    """
    if model.directory.is_symlink():
        raise KeptModelError(f"{model.name} comes with Tentalis, and is kept wherever that is")
    gone = model.directory.with_name(f".gone-{model.name}")
    shutil.rmtree(gone, ignore_errors=True)
    model.directory.rename(gone)
    shutil.rmtree(gone)


def read_manifest(directory: Path) -> KeptModel:
    """Raises KeptModelError where it is none."""
    path = directory / MANIFEST
    try:
        told = json.loads(path.read_bytes())
        files = {str(name): str(sha256) for name, sha256 in told["files"].items()}
        texts = {field: str(told[field]) for field in ("source", "source_sha256", "licence", "template", "made_at")}
        facts = ModelFacts(**told["facts"]) if told.get("facts") else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KeptModelError(f"{path} is no manifest of a kept model: {type(error).__name__}: {error}") from None
    return KeptModel(name=directory.name, directory=directory, files=files, facts=facts, **texts)


def write_manifest(
    directory: Path,
    *,
    source: str,
    source_sha256: str,
    licence: str,
    template: str,
    made_at: str,
    facts: ModelFacts | None = None,
) -> None:
    """Hash what lies in a directory and say where it is from."""
    files = {path.name: hash_files([path]) for path in sorted(directory.iterdir()) if path.name != MANIFEST}
    told = {"source": source, "source_sha256": source_sha256, "licence": licence, "template": template}
    _write(directory, told | {"made_at": made_at, "files": files, "facts": asdict(facts) if facts else None})


def write_facts(model: KeptModel, facts: ModelFacts) -> None:
    """Put what was seen of a model into its manifest."""
    told = json.loads((model.directory / MANIFEST).read_bytes())
    _write(model.directory, told | {"facts": asdict(facts)})


def _write(directory: Path, told: Mapping[str, Any]) -> None:
    text = json.dumps(told, indent=2, ensure_ascii=False)
    staging = directory / f".{MANIFEST}"
    staging.write_text(text + "\n", encoding="utf-8")
    staging.replace(directory / MANIFEST)


def find_faults(model: KeptModel) -> list[str]:
    """Read every file of a kept model again; in words, what is not as its manifest says or what a chat lacks."""
    faults = []
    for name, wanted in model.files.items():
        path = model.directory / name
        if not path.is_file():
            faults.append(f"{name} is missing")
        elif (found := hash_files([path])) != wanted:
            faults.append(f"{name} was changed: wanted sha256 {wanted}, found {found}")
    faults += look_over(model.directory)
    if not has_chat_template(model.directory) and model.template != NO_TEMPLATE:
        faults.append("no chat template: wanted chat_template.jinja, or one in tokenizer_config.json")
    return faults


def look_over(directory: Path) -> list[str]:
    """In words, what keeps a directory from being a model that can be served and trained on; [] where nothing does.

    Only its small files and the heads of its weights are read.
    """
    faults = []
    try:
        config = json.loads((directory / "config.json").read_bytes())
        quantised = config.get("quantization_config")
        if not isinstance(config.get("model_type"), str):
            faults.append("config.json names no model_type: nothing says what family it is")
        if quantised:
            way = quantised.get("quant_method", "unknown") if isinstance(quantised, dict) else "unknown"
            faults.append(
                f"its weights are quantised by {way}, which can be neither served nor trained on here: wanted the "
                "model as it was before that, or a GGUF file, which is written out"
            )
    except FileNotFoundError:
        faults.append("no config.json: nothing says what family it is")
    except (OSError, ValueError, AttributeError) as error:
        faults.append(f"config.json cannot be read: {error}")
    if not (directory / "tokenizer.json").is_file():
        other = next((name for name in ("tokenizer.model", "vocab.json") if (directory / name).is_file()), "")
        found = f"; found {other}: transformers' `save_pretrained` of its fast tokenizer writes one" if other else ""
        faults.append(f"no tokenizer: wanted tokenizer.json{found}")
    return faults + _look_over_weights(directory)


def _look_over_weights(directory: Path) -> list[str]:
    try:
        files = list_weight_files(directory)
        kinds = {kind for path in files for kind, _ in read_weight_head(path).values()}
    except KeptModelError as error:
        return [str(error)]
    if odd := sorted(kinds - set(FLOATS)):
        return [f"weights of the type {', '.join(odd)}: wanted {', '.join(FLOATS)}"]
    return []


def list_weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model directory, shards in order.

    Raises:
        KeptModelError: there are none, or one that its index names is not there.
    """
    index, single = directory / INDEX, directory / "model.safetensors"
    if single.is_file():
        return [single]
    if not index.is_file():
        pickled = next(chain(directory.glob("*.bin"), directory.glob("*.pt*")), None)
        found = f"; found {pickled.name}: pickled weights are never loaded" if pickled else ""
        raise KeptModelError(f"no weights: wanted model.safetensors, or {INDEX} with its shards{found}")
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        files = [directory / Path(name).name for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KeptModelError(f"{INDEX} is no index of weights: {type(error).__name__}: {error}") from None
    if missing := [path.name for path in files if not path.is_file()]:
        raise KeptModelError(f"no {', '.join(missing[:3])}: {INDEX} names {len(files)} shards, {len(missing)} missing")
    return files


def read_weight_head(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Tensor -> (type, shape) of a safetensors file, by its head and its size.

    Raises:
        KeptModelError: it is none, or not whole.
    """
    try:
        with path.open("rb") as file:
            head_bytes = int.from_bytes(file.read(8), "little")
            if not 0 < head_bytes <= _MOST_HEAD_BYTES:
                raise ValueError("it has no head")
            told = json.loads(file.read(head_bytes))
        told.pop("__metadata__", None)
        found = {str(name): (str(one["dtype"]), [int(n) for n in one["shape"]]) for name, one in told.items()}
        wanted = 8 + head_bytes + max((int(one["data_offsets"][1]) for one in told.values()), default=0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise KeptModelError(f"{path.name} is no safetensors file: {str(error) or type(error).__name__}") from None
    if (size := path.stat().st_size) != wanted:
        raise KeptModelError(f"{path.name} is not whole: wanted {wanted:,} bytes by its head, found {size:,}")
    return found


def has_chat_template(directory: Path) -> bool:
    if (directory / "chat_template.jinja").is_file():
        return True
    try:
        told = json.loads((directory / "tokenizer_config.json").read_bytes())
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


def count_room(memory_mib: int) -> int:
    """Bytes that kept models may take in this machine's engine together; 0: half of what the machine has."""
    return memory_mib << 20 or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
