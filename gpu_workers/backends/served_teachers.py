"""A frozen teacher on a model server, ours or vLLM: asked by address what it thinks of an answer under the hint.

What it is sent are token ids, and what it says is believed for these very ids alone. A teacher that cannot be asked
ends the run with its words; nothing else is asked in its place.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from gpu_workers.backends.errors import TrainingError
from gpu_workers.engine.text import TextCodec
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.recipes import SERVED
from tentalis.env import read_environment

ROWS_AT_ONCE = 32
TIMEOUT_S = 300.0
CONNECT_TRIES = 3


class TeacherError(TrainingError):
    """The served teacher could not be asked, or what it said is not about the tokens it was asked about."""


class ServedTeacher:
    """A model under its name on one server. Every method raises TeacherError.

    `context_length` is what it may be asked to read at once: the model's, less the one token that a server insists on
    adding.
    """

    def __init__(self, client: httpx.Client, url: str, model: str) -> None:
        """Ask the server how much the model may read at once."""
        self._client = client
        self._url = url
        self._model = model
        said = self._ask("/tokenize", {"prompt": "?"})
        try:
            self.context_length = int(said["max_model_len"]) - 1
        except (KeyError, TypeError, ValueError) as error:
            raise TeacherError(f"{self._name}: wanted max_model_len, found {str(said)[:200]}") from error

    def require_same_tokens(self, ids: Iterable[int], codec: TextCodec) -> None:
        """Refuse a teacher to whom these tokens are others than to the base (blanks aside, which decoders tidy up)."""
        asked = sorted(set(ids))
        said = self._ask("/detokenize", {"tokens": asked})
        found = said.get("prompt") if isinstance(said, dict) else None
        if not isinstance(found, str):
            raise TeacherError(f"{self._name}: wanted the text of {len(asked)} tokens, found {str(said)[:200]}")
        ours = codec.decode(asked, skip_special=False)
        if _pack(found) != _pack(ours):
            raise TeacherError(
                f"{self._name} must have the base's tokenizer: {len(asked)} tokens are {ours[:60]!r}… to the base, "
                f"found {found[:60]!r}…"
            )

    def score(self, items: Sequence[tuple[Sequence[int], RolloutRecord]]) -> list[list[float]]:
        """Log-probs in nats (T,) of each rollout's tokens after the given prompt."""
        scored: list[list[float]] = []
        for start in range(0, len(items), ROWS_AT_ONCE):
            part = items[start : start + ROWS_AT_ONCE]
            rows = [[*prompt, *rollout.token_ids] for prompt, rollout in part]
            body = {"prompt": rows, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0, "return_token_ids": True}
            body["logprob_start_len"] = [len(prompt) for prompt, _ in part]
            choices = self._read_choices(self._ask("/v1/completions", body), len(rows))
            for (prompt, _), row, choice in zip(part, rows, choices, strict=True):
                scored.append(self._read_row(choice, row, len(prompt)))
        return scored

    @property
    def _name(self) -> str:
        return f"the teacher {self._model} at {self._url}"

    def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        try:
            answer = self._client.post(path, json={"model": self._model, **body})
        except httpx.HTTPError as error:
            raise TeacherError(f"{self._name} cannot be asked: {type(error).__name__}: {error}") from None
        if not answer.is_success:
            raise TeacherError(f"{self._name} refuses {path}: HTTP {answer.status_code}: {answer.text[:500]}")
        try:
            return answer.json()
        except ValueError as error:
            raise TeacherError(f"{self._name}: wanted JSON from {path}, found {answer.text[:200]!r}") from error

    def _read_choices(self, said: Any, count: int) -> list[Mapping[str, Any]]:
        """The answer's choices in order. Another model's are refused: a server may know the name as something else."""
        try:
            served, choices = said["model"], sorted(said["choices"], key=lambda choice: int(choice["index"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TeacherError(f"{self._name}: wanted choices, found {str(said)[:200]}") from error
        if served != self._model or len(choices) != count:
            raise TeacherError(f"{self._name}: wanted {count} answers, found {len(choices)} of {served}")
        return choices

    def _read_row(self, choice: Mapping[str, Any], row: Sequence[int], start: int) -> list[float]:
        """Log-probs of the tokens from `start` on, of exactly the tokens that were sent."""
        found, entries = choice.get("prompt_token_ids"), choice.get("prompt_logprobs")
        if found != row or not isinstance(entries, list) or len(entries) != len(row):
            raise TeacherError(f"{self._name} read other tokens than the {len(row)} it was sent: {str(found)[:200]}")
        try:
            values = [
                float(entry[str(token)]["logprob"]) for token, entry in zip(row[start:], entries[start:], strict=True)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise TeacherError(f"{self._name}: wanted a log-prob of each token it was sent, found {error!r}") from error
        if not all(map(math.isfinite, values)):
            raise TeacherError(f"{self._name}: wanted finite log-probs, found {min(values)}..{max(values)}")
        return values


@contextmanager
def open_teacher(teacher: str, options: Mapping[str, Any]) -> Iterator[ServedTeacher]:
    """The model that a recipe's `served:NAME` names, at the spec's `teacher_url`; its key is this box's own.

    Raises:
        TeacherError: there is no address, or the server there does not know the model.
    """
    model, url = teacher.removeprefix(SERVED), options.get("teacher_url")
    if not isinstance(url, str) or not url:
        raise TeacherError(
            f"recipe.teacher {teacher!r} wants the address of a server: options.teacher_url names none; "
            "TENTALIS_TEACHER_URL sets it"
        )
    root = url.rstrip("/").removesuffix("/v1")
    key = read_environment()["TEACHER_API_KEY"]
    try:
        with httpx.Client(
            base_url=root,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=TIMEOUT_S,
            transport=httpx.HTTPTransport(retries=CONNECT_TRIES),
        ) as client:
            yield ServedTeacher(client, root, model)
    except httpx.InvalidURL as error:
        raise TeacherError(f"options.teacher_url must be like http://host:port, found {url!r}: {error}") from None


def _pack(text: str) -> str:
    return "".join(text.split())
