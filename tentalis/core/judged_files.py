"""Finished work with its judgement out of a file of JSON lines. Pure; a file is taken whole or not at all."""

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tentalis.core.canon import canonical_json
from tentalis.core.field_limits import MAX_END_USER_CHARS
from tentalis.core.strict_json import StrictJsonError, read_json
from tentalis.core.task_files import TaskFileError

TASKS: Final = "tasks"
KINDS: Final = ("preferences", "sft", "kto", "stepwise")
"""Kinds of rows that come in with a judgement; rows of tasks come in without."""
REFUSED: Final[Mapping[str, str]] = {
    "rollouts": (
        "rollouts are not imported: their token ids and log-probs hold for the very weights that sampled them, which a "
        "row does not prove, and learning would take them for its own; export preferences, kto or sft instead"
    ),
    "feedback": "reviews are not imported: they name tasks and attempts of another project; export preferences instead",
}
WHAT_THEY_TEACH: Final[Mapping[str, str]] = {
    "preferences": "each row is a pair of answers to learn from (dpo, ipo)",
    "sft": "each row is an answer to imitate (sft)",
    "kto": "each row labelled true is an answer to imitate (sft); one labelled false is kept and trains nothing",
    "stepwise": "the labels are kept and shown; they train nothing, for words alone do not say which tokens a step is",
}
NO_TOKENS: Final = (
    "imported in words: no model's tokens and log-probs are known for it, so no reward trains on it; what it teaches "
    "comes as a pair or as an answer to imitate"
)
MOST_ANSWER_CHARS: Final = 100_000
MOST_STEPS: Final = 500
RIGHT_FROM, LABEL_MARGIN = 0.5, 0.05
"""An export labels an answer by its reward where that is so far from the middle."""
_LEVELS, _DIGITS = 16, 19


class JudgedRow(NamedTuple):
    """A task that was done elsewhere, and what was said of it.

    Args:
        line: where it begins, from 1.
        answers: the better one first; where there is but one, it is good (`is_chosen`), scored, or labelled by step.
        steps, labels: of the only answer, as many of each.
        score: of the only answer, in [0, 1].
        end_user: whom the row is about, as sessions name people; "" where it does not say.
    """

    line: int
    prompt: str
    answers: tuple[str, ...]
    is_chosen: bool = False
    steps: tuple[str, ...] = ()
    labels: tuple[bool, ...] = ()
    score: float | None = None
    end_user: str = ""


class _FaultError(ValueError):
    """What was wanted of a row, and what was found."""


def guess_kind(text: str) -> str:
    """What rows a file of JSON lines holds, by the names in its first; "tasks" where it says nothing else."""
    first = text.removeprefix("\ufeff").lstrip().partition("\n")[0]
    try:
        said = read_json(first, most_levels=_LEVELS, most_digits=_DIGITS)
    except StrictJsonError:
        return TASKS
    marks = {
        "preferences": {"chosen", "rejected"}, "kto": {"completion", "label"}, "stepwise": {"completions", "labels"},
        "rollouts": {"prompt_token_ids", "token_ids"}, "sft": {"messages"}, "feedback": {"review", "preferred_attempt"},
    }  # fmt: skip
    names = set(said) if isinstance(said, dict) else set()
    return next((kind for kind, wanted in marks.items() if wanted <= names), TASKS)


def write_shown(prompt: str, answer: str) -> str:
    """A row of `sft`: an answer to imitate."""
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return canonical_json({"messages": messages}).decode()


def read_judged_rows(text: str, *, kind: str, most: int) -> list[JudgedRow]:
    """The rows of a file of JSON lines, in its order.

    Args:
        kind: one of `KINDS`; its content (`CONTENT`) must be there, other columns but `end_user` are left out.
        most: rows.
    Raises:
        TaskFileError: with each line that is not what is wanted.
    """
    if kind not in _READERS:
        wanted = f"rows: wanted one of {', '.join((TASKS, *KINDS))}, found {kind[:40]!r}"
        raise TaskFileError({0: REFUSED.get(kind, wanted)})
    rows: list[JudgedRow] = []
    faults: dict[int, str] = {}
    for line, found in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not found.strip():
            continue
        try:
            said = _read_object(found, kind)
            rows.append(_READERS[kind](line, said)._replace(end_user=_take_end_user(said)))
        except (StrictJsonError, _FaultError) as error:
            faults[line] = str(error)
        if len(rows) + len(faults) > most:
            raise TaskFileError(faults or {0: f"wanted at most {most:,} rows in a file, found more"})
    if faults or not rows:
        raise TaskFileError(faults or {0: "wanted rows, found none"})
    return rows


def _read_object(text: str, kind: str) -> Mapping[str, Any]:
    said = read_json(text, most_levels=_LEVELS, most_digits=_DIGITS)
    if not isinstance(said, dict):
        raise _FaultError(f"wanted an object, found {text.strip()[:60]!r}")
    if missing := [name for name in CONTENT[kind] if said.get(name) is None]:
        raise _FaultError(f"wanted {', '.join(CONTENT[kind])} of {kind}; {', '.join(missing)} is not there")
    return said


def _read_pair(line: int, said: Mapping[str, Any]) -> JudgedRow:
    chosen, rejected = _take_text(said, "chosen"), _take_text(said, "rejected", may_be_blank=True)
    if chosen == rejected:
        raise _FaultError("rejected: wanted another answer than chosen, found the same")
    return JudgedRow(line, _take_text(said, "prompt"), (chosen, rejected), is_chosen=True)


def _read_sft(line: int, said: Mapping[str, Any]) -> JudgedRow:
    messages = said["messages"]
    roles = (
        [one.get("role") if isinstance(one, dict) else None for one in messages] if isinstance(messages, list) else []
    )
    if roles != ["user", "assistant"]:
        found = ", ".join(str(role) for role in roles)[:80] or "none"
        raise _FaultError(
            f"messages: wanted a user's and the assistant's answer to it, found {found}: a task is one prompt, and "
            "tells no conversation before it"
        )
    for place, one in enumerate(messages):
        if more := sorted(name for name in set(one) - {"role", "content"} if one[name] is not None):
            raise _FaultError(f"messages[{place}]: wanted role and content, found {', '.join(more)[:80]} too")
    prompt, answer = (_take_text(one, "content") for one in messages)
    return JudgedRow(line, prompt, (answer,), is_chosen=True)


def _read_kto(line: int, said: Mapping[str, Any]) -> JudgedRow:
    label, reward = said["label"], said.get("reward")
    if not isinstance(label, bool):
        raise _FaultError(f"label: wanted true or false, found {label!r:.60}")
    score = 1.0 if label else 0.0
    if reward is not None:
        is_number = type(reward) in (int, float) and math.isfinite(reward) and 0 <= reward <= 1
        if not is_number or abs(reward - RIGHT_FROM) < LABEL_MARGIN or (reward > RIGHT_FROM) != label:
            side = "above" if label else "below"
            raise _FaultError(
                f"reward: wanted a number from 0 to 1, {side} 0.5 as its label says, found {reward!r:.60}"
            )
        score = float(reward)
    return JudgedRow(
        line, _take_text(said, "prompt"), (_take_text(said, "completion", may_be_blank=True),), score=score
    )


def _read_stepwise(line: int, said: Mapping[str, Any]) -> JudgedRow:
    steps, labels = said["completions"], said["labels"]
    if not isinstance(steps, list) or not 1 <= len(steps) <= MOST_STEPS or not all(type(one) is str for one in steps):
        raise _FaultError(f"completions: wanted a list of 1 to {MOST_STEPS} texts")
    if not isinstance(labels, list) or len(labels) != len(steps) or not all(type(one) is bool for one in labels):
        raise _FaultError(f"labels: wanted true or false for each of the {len(steps)} completions")
    answer = _take_text({"completions": "\n".join(steps)}, "completions", may_be_blank=True)
    return JudgedRow(line, _take_text(said, "prompt"), (answer,), steps=tuple(steps), labels=tuple(labels))


_READERS: Final[Mapping[str, Callable[[int, Mapping[str, Any]], JudgedRow]]] = {
    "preferences": _read_pair, "sft": _read_sft, "kto": _read_kto, "stepwise": _read_stepwise,
}  # fmt: skip


def _take_text(said: Mapping[str, Any], name: str, *, may_be_blank: bool = False) -> str:
    text = said.get(name)
    if not isinstance(text, str) or not (text.strip() or may_be_blank):
        raise _FaultError(f"{name}: wanted some text, found {text!r:.60}")
    if len(text) > MOST_ANSWER_CHARS:
        raise _FaultError(f"{name}: wanted at most {MOST_ANSWER_CHARS:,} characters, found {len(text):,}")
    return text


def _take_end_user(said: Mapping[str, Any]) -> str:
    name = said.get("end_user")
    if name is None:
        return ""
    if not isinstance(name, str) or len(name) > MAX_END_USER_CHARS:
        raise _FaultError(f"end_user: wanted at most {MAX_END_USER_CHARS} characters of text, found {name!r:.60}")
    return name


CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "tasks": ("prompt", "reference", "checks", "metadata", "group_size", "seed"),
    "items": ("split", "prompt", "messages", "reference", "checks", "seed", "weight"),
    "preferences": ("prompt", "chosen", "rejected"),
    "stepwise": ("prompt", "completions", "labels"),
    "kto": ("prompt", "completion", "label"),
    "sft": ("messages",),
    "rollouts": ("prompt_token_ids", "token_ids", "logprobs", "sampled", "reward", "messages"),
}
"""Kind of rows -> the columns that are its content."""


class ContentHash:
    """SHA-256 over the content of rows of one kind, a canonical JSON line each, in their order; absent is null.

    What a project calls a check is no content: {"use": "name@version", "is": check} counts as the check.
    """

    def __init__(self, kind: str) -> None:
        self._names = CONTENT[kind]
        self._hash = hashlib.sha256()

    def add(self, row: Mapping[str, Any]) -> None:
        content = {name: row.get(name) for name in self._names}
        if content.get("checks"):
            content["checks"] = _leave_out_names(content["checks"])
        self._hash.update(canonical_json(content) + b"\n")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _leave_out_names(checks: Any) -> Any:
    if isinstance(checks, dict):
        if checks.keys() == {"use", "is"} and isinstance(checks["use"], str):
            return _leave_out_names(checks["is"])
        return {name: _leave_out_names(value) for name, value in checks.items()}
    return [_leave_out_names(one) for one in checks] if isinstance(checks, list) else checks
