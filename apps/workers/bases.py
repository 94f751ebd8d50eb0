"""The base weights under a worker's adapters: where they are, what they are, whether its server serves the same."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.base.errors import BadInputError, TentalisError
from apps.inference.client import ModelClient
from apps.inference.provider_kinds import find_kind
from apps.inference.services import client_for
from apps.workers.base_names import BUILT_IN, name_base
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from tentalis.core.canon import content_hash

MOST_JSON_BYTES = 64 * 2**20
MOST_FILES = 1_000
SPELLED = 6
WANTED = "wanted a directory with config.json, a tokenizer and weights (*.safetensors), as the training machine sees it"


class BaseWeightsError(BadInputError):
    """A directory holds no base model, or another than the model server serves; the message says what was found."""

    def __init__(self, message: str) -> None:
        super().__init__(message, errors={"base_directory": [message]})


@dataclass(frozen=True)
class BaseFacts:
    """What is known of a base model by its files.

    Args:
        fingerprint: sha256 of its config, its tokenizer and the names, shapes and sizes of its weights, not the weights
            themselves: those are hashed by the trainer, and stand in each adapter's manifest.
        parameters: numbers in its weights; None where they are not here (a service has them).
    """

    fingerprint: str
    model_type: str
    parameters: int | None
    context_tokens: int | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def say_missing(worker: Worker) -> str:
    """Why a worker without base weights trains nothing, and what to do; "" where it has some."""
    if name_base(worker):
        return ""
    server = worker.provider.name if worker.provider else "the installation's model server"
    return (
        f"{worker.name} has no base weights: {find_base_model(worker) or 'its model'!r} is served by {server}, and "
        "nobody said in which directory the training machine finds the same model (base_directory)"
    )


def say_untrained(worker: Worker) -> str:
    """Why nothing of a worker trains, and what to do; "" where it can. Base weights are no help where its model server
    tells no tokens."""
    server = worker.provider
    kind = find_kind(server.kind if server else settings.TENTALIS["INFERENCE_BACKEND"])
    if not kind.tells_tokens:
        return f"{kind.label} does not tell the tokens of its answers, without which nothing trains"
    if server and server.probe.get("tells_tokens") is False:
        return (
            f"{server.name} told no tokens of its answers when it was tested last, and without them nothing trains: "
            f"`tentalis model test {server.name}` asks it again"
        )
    return say_missing(worker.line)


def require_base(worker: Worker) -> str:
    """As `name_base`. Raises BaseWeightsError where it has none: nothing stands in for it."""
    if not (base := name_base(worker)):
        raise BaseWeightsError(say_missing(worker))
    return base


def read_base(directory: str, *, with_weights: bool) -> BaseFacts:
    """What a directory holds, by its small files and the heads of its weights.

    Args:
        with_weights: the trainer reads them there; False where a service has them.
    Raises:
        BaseWeightsError: there is no base model, in words that tell nothing of what else is there.
    """
    root = Path(directory)
    if not root.is_absolute():
        raise BaseWeightsError(f"{WANTED}: an absolute path; found {directory!r}")
    config = _read_json(root / "config.json", directory)
    if not isinstance(config.get("model_type"), str):
        raise BaseWeightsError(f"{WANTED}; config.json in {directory!r} names no model_type")
    tokenizer = _hash_tokenizer(root, directory)
    shapes = dict(_read_weights(root, directory)) if with_weights else {}
    if with_weights and not shapes:
        raise BaseWeightsError(f"{WANTED}; found no *.safetensors in {directory!r}")
    text = config.get("text_config")
    inner: Mapping[str, Any] = text if isinstance(text, dict) else config
    context = inner.get("max_position_embeddings")
    return BaseFacts(
        fingerprint=content_hash({"config": config, "tokenizer": tokenizer, "weights": shapes}),
        model_type=config["model_type"][:64],
        parameters=sum(math.prod(shape) for _, shape in shapes.values()) if with_weights else None,
        context_tokens=context if isinstance(context, int) else None,
    )


def reads_weights(backend: str = "") -> bool:
    """Whether trainings by this backend, "" the installation's, read the weights from the directory."""
    return (backend or settings.TENTALIS["TRAINER_BACKEND"]) != "tinker"


def check_directory(worker: Worker) -> BaseFacts | None:
    """What its directory holds; None for the built-in model, and where none was said.

    Raises:
        BaseWeightsError: it holds no base model.
    """
    if worker.base_directory in {"", BUILT_IN}:
        return None
    return read_base(worker.base_directory, with_weights=reads_weights())


def compare_with_server(worker: Worker, client: ModelClient) -> str:
    """What of the model that answers is seen to be the one in the directory, in words.

    Its tokenizer is asked for what some tokens write. Whether the weights are the same is seen by the trainer, which
    compares the first log-probs.

    Raises:
        BaseWeightsError: the server serves another model.
        TentalisError: it cannot be asked.
    """
    vocabulary = _read_vocabulary(Path(worker.base_directory))
    chosen = _choose_tokens(vocabulary)
    if not client.tells_tokens or not chosen:
        return "the model server tells nothing that the files could be compared with"
    model, seen = find_base_model(worker), 0
    for token_id, written in chosen:
        pieces = client.spell([token_id], model=model)
        if pieces is None:
            continue
        seen += 1
        if _plain(pieces[0]) != _plain(written):
            raise BaseWeightsError(
                f"{model!r} of the model server has another tokenizer than {worker.base_directory!r}: token {token_id} "
                f"writes {pieces[0]!r} there and {written!r} here"
            )
    return (
        f"its tokenizer spells {seen} tokens as the model server does"
        if seen
        else "the tokenizer could not be compared"
    )


def check_against_server(worker: Worker, client: ModelClient) -> str:
    """As `compare_with_server`; where the server cannot be asked, that is the answer.

    Raises:
        BaseWeightsError: the server serves another model.
    """
    try:
        return compare_with_server(worker, client)
    except BaseWeightsError:
        raise
    except TentalisError as error:
        return f"the model server could not be asked: {str(error)[:200]}"


@dataclass(frozen=True)
class Compared:
    """What a comparison found, in words. Args: is_good: a worker can be trained as far as its base weights go."""

    is_good: bool
    words: str


def compare_base(worker: Worker, *, backend: str = "") -> Compared:
    """Compare a worker's base weights with what they were, and with what its model server serves.

    What was found stands with the worker (`base_compared`), good or not.

    Args:
        backend: that trains it; "" the installation's.
    Raises:
        TentalisError: its server may not be asked.
    """
    if missing := say_missing(worker):
        return Compared(False, missing)
    if name_base(worker) == BUILT_IN:
        return Compared(True, f"{worker.name} is trained on the built-in model")
    facts = None
    try:
        facts = read_base(worker.base_directory, with_weights=reads_weights())
        _require_same_files(worker, facts, backend)
        seen = check_against_server(worker, client_for(worker.provider, worker.project_id))
    except BaseWeightsError as error:
        found = Compared(False, f"{worker.name}: {error}")
    else:
        size = f", {facts.parameters:,} parameters" if facts.parameters is not None else ""
        found = Compared(True, f"{worker.name}: the files hold {facts.model_type}{size}; {seen}")
    worker.base_compared = {
        "at": timezone.now().isoformat(),
        "model": find_base_model(worker),
        "fingerprint": facts.fingerprint if facts else "",
        **asdict(found),
    }
    if facts and found.is_good and not worker.base_facts:
        worker.base_facts = facts.to_json()
    Worker.objects.filter(pk=worker.pk).update(base_compared=worker.base_compared, base_facts=worker.base_facts)
    return found


def _require_same_files(worker: Worker, facts: BaseFacts, backend: str) -> None:
    """Raises BaseWeightsError where the files are others than when the worker was set up."""
    known = worker.base_facts.get("fingerprint")
    if known and reads_weights(backend) == reads_weights() and known != facts.fingerprint:
        found = f"was {known[:12]} when the worker was set up, found {facts.fingerprint[:12]}"
        raise BaseWeightsError(f"the files in {worker.base_directory!r} are no longer the same model: {found}")


def spell_tokens(worker: Worker, token_ids: Sequence[int]) -> list[str] | None:
    """What tokens write by the tokenizer among a worker's base weights; None where it is not here or knows one not."""
    if not worker.base_directory:
        return None
    path = Path(worker.base_directory) / "tokenizer.json"
    try:
        pieces = _read_pieces(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return None
    spelled = [pieces.get(token_id) for token_id in token_ids]
    return None if any(piece is None for piece in spelled) else [piece or "" for piece in spelled]


@lru_cache(maxsize=2)
def _read_pieces(path: Path, _changed_ns: int) -> dict[int, str]:
    """Token id -> its piece, added tokens among them, as the file stands."""
    pieces = {number: text for text, number in _read_vocabulary(path.parent).items()}
    told = json.loads(_read_bytes(path))
    added = told.get("added_tokens") if isinstance(told, dict) else None
    for one in added if isinstance(added, list) else []:
        if isinstance(one, dict) and isinstance(one.get("id"), int) and isinstance(one.get("content"), str):
            pieces[one["id"]] = one["content"]
    return pieces


def _plain(piece: str) -> str:
    return piece.replace("Ġ", "").replace("▁", "").strip()


def _choose_tokens(vocabulary: Mapping[str, int]) -> list[tuple[int, str]]:
    """Some words of a vocabulary, spread over it, in plain letters, so that every server spells them alike."""
    words = sorted(
        (number, text) for text, number in vocabulary.items() if _plain(text).isascii() and _plain(text).isalnum()
    )
    step = max(1, len(words) // SPELLED)
    return words[step // 2 :: step][:SPELLED]


def _read_vocabulary(root: Path) -> dict[str, int]:
    try:
        told = json.loads(_read_bytes(root / "tokenizer.json"))["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if isinstance(told, list):  # unigram: [piece, score] by number
        told = {one[0]: number for number, one in enumerate(told) if isinstance(one, list) and one}
    return {text: number for text, number in told.items() if isinstance(text, str) and isinstance(number, int)}


def _read_bytes(path: Path) -> bytes:
    """A plain file of at most `MOST_JSON_BYTES`. Raises OSError."""
    found = path.stat()
    if not S_ISREG(found.st_mode) or found.st_size > MOST_JSON_BYTES:
        raise OSError("not a plain file of an expected size")
    return path.read_bytes()


def _read_json(path: Path, directory: str) -> dict[str, Any]:
    try:
        found = json.loads(_read_bytes(path))
    except (OSError, ValueError):
        raise BaseWeightsError(f"{WANTED}; found no readable {path.name} in {directory!r}") from None
    if not isinstance(found, dict):
        raise BaseWeightsError(f"{WANTED}; {path.name} in {directory!r} is no JSON object")
    return found


def _hash_tokenizer(root: Path, directory: str) -> str:
    for name in ("tokenizer.json", "tokenizer.model", "vocab.json"):
        try:
            return hashlib.sha256(_read_bytes(root / name)).hexdigest()
        except OSError:
            continue
    raise BaseWeightsError(f"{WANTED}; found no tokenizer.json in {directory!r}")


def _read_weights(root: Path, directory: str) -> Iterator[tuple[str, tuple[str, list[int]]]]:
    """Tensor -> (type, shape), from the heads of the files alone."""
    for path in sorted(root.glob("*.safetensors"))[:MOST_FILES]:
        try:
            if not S_ISREG(path.stat().st_mode):
                raise OSError("not a plain file")
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                if size > MOST_JSON_BYTES:
                    raise ValueError("no safetensors head")
                head = json.loads(file.read(size))
            head.pop("__metadata__", None)
            yield from ((name, (str(told["dtype"]), [int(n) for n in told["shape"]])) for name, told in head.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise BaseWeightsError(f"{WANTED}; {path.name} in {directory!r} is no whole safetensors file") from None
