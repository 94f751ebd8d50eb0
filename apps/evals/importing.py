"""Runs that other tools made, as evaluations that are done: their tries with conversations and the grades they had.

All of a file comes in, or nothing.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple, Required, TypedDict

from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.base.texts import make_storable
from apps.evals.asking import MOST_ITEMS, open_items
from apps.evals.models import Evaluation, Item, ItemTry, Taskset
from apps.evals.panels import ItemSet
from apps.evals.records import make_record
from apps.evals.results import Measured, commit
from apps.evals.services import ItemRow, add_items, freeze_taskset, hash_item, refuse_rows
from apps.workers.models import Worker
from apps.workers.services import change_worker, create_worker
from apps.worlds.identity import name_world
from tentalis.core.canon import content_hash
from tentalis.core.run_logs.logged import LoggedRun, LoggedTry, RunLogError
from tentalis.core.run_logs.reading import read_run
from tentalis.core.worlds import AttemptDraft, DraftStep
from tentalis.limits import LIMITS
from tentalis.zstd import unpack_zstd

ENVIRONMENT: Final = "chat"
"""That imported items stand in: what other environments found out cannot be found out again from a file."""
NOT_TRAINABLE: Final = (
    "imported: it holds no tokens and log-probs, so reinforcement learning cannot learn from it; it can be graded "
    "anew, compared and exported"
)
NO_MODEL: Final = "wanted whose answers these are, for the file names no model"
MOST_TRIES: Final = 100
"""Of an item."""


ENDED: Final = (Evaluation.State.DONE, Evaluation.State.FAILED)


class ImportedFile(TypedDict, total=False):
    """What `import_run` takes beside the project and who asks."""

    data: Required[bytes]
    name: str
    form: str
    score: str
    results: bytes | None
    worker: Worker | None
    adapter: Adapter | None


class _PlacedTry(NamedTuple):
    """Where a try stands: which item, which try of it."""

    item: str
    number: int
    tried: LoggedTry


def import_run(
    *,
    project: Project,
    data: bytes,
    by: User,
    name: str = "",
    form: str = "",
    score: str = "",
    results: bytes | None = None,
    worker: Worker | None = None,
    adapter: Adapter | None = None,
) -> Evaluation:
    """The run that a file holds, as an evaluation that is done; of the very same file the one there is.

    Args:
        name: of the file. form, score, results: see `read_run`.
        worker, adapter: whose answers these are; None: of a model that works outside and is none of the project's. A
            worker that stands for it is made, and does nothing.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: saying what was wanted of the file, and where.
    """
    require_right(by, project, Right.EVALS_WRITE)
    if adapter is not None and (worker is None or adapter.worker_id != worker.line_id):
        raise BadInputError.at("adapter", f"wanted one of its worker's line, found {adapter.name}")
    most = LIMITS.import_unpacked_bytes
    try:
        run = read_run(data, name=name, form=form, score=score, results=results, most_bytes=most, unzstd=unpack_zstd)
    except RunLogError as error:
        raise BadInputError.at("file", make_storable(str(error))[:2000]) from None
    if worker is None and not run.model:
        raise BadInputError.at("worker", NO_MODEL)
    places = _place(run)
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        worker = worker or _stand_in(project, run.model, by=by)
        taskset, indices = _add_items(project, run, places, file=name, by=by)
        item_set = open_items(taskset, Item.Split.HELD_OUT, count=0, indices=list(indices.values()))
        digest = hashlib.sha256(data).hexdigest()
        asked_with = {
            "base_model": run.model,
            "sampling": _plain(run.settings.get("sampling") or {}),
            "world": name_world(item_set.world),
            "imported": digest,
            "score": score,
        }
        same = {
            "worker": worker,
            "adapter": adapter,
            "purpose": Evaluation.Purpose.REPORT,
            "asked_hash": content_hash(asked_with)[:32],
        }
        there = Evaluation.objects.filter(state__in=ENDED, **same).first()
        if there is not None:
            return there
        return _write(
            Evaluation(
                project=project,
                **same,
                item_set=item_set.name,
                item_set_hash=item_set.hash,
                taskset=taskset,
                split=Item.Split.HELD_OUT,
                indices=list(indices.values()),
                tries=max(place.number for place in places) + 1,
                planned=len(places),
                asked_with=asked_with,
                asked_by=by.handle,
                made_with=_describe(run, file=name, sha256=digest),
            ),
            item_set,
            places,
            [*indices],
            run,
            by=by,
        )


def _write(
    evaluation: Evaluation,
    item_set: ItemSet,
    places: Sequence[_PlacedTry],
    order: Sequence[str],
    run: LoggedRun,
    *,
    by: User,
) -> Evaluation:
    at = {item: place for place, item in enumerate(order)}
    measured = Measured(evaluation)
    measured.rates = None  # what another paid is what its file says
    rows = [_make_row(item_set, at[one.item], one, run) for one in places]
    commit(measured, rows, is_last=True, by=by.handle)
    payload = {"imported": run.form, "tries": len(rows), "items": item_set.name}
    record(Kind.EVAL_FINISHED, subject=evaluation, by=by.handle, payload=payload)
    return evaluation


def _place(run: LoggedRun) -> list[_PlacedTry]:
    """The tries by what they were asked: those that were asked the same are tries of one item."""
    numbers, made = Counter[str](), []
    faults: dict[int, str] = {}
    for line, tried in enumerate(run.tries, start=1):
        prompt, messages = _split_opening(tried)
        if not prompt.strip():
            faults[line] = f"{tried.place}: wanted what was asked, found nothing"
            continue
        item = hash_item(prompt, messages)
        made.append(_PlacedTry(item, numbers[item], tried))
        numbers[item] += 1
    if faults:
        raise refuse_rows(faults)
    if len(numbers) > MOST_ITEMS:
        raise BadInputError.at("file", f"wanted at most {MOST_ITEMS:,} items, found {len(numbers):,}")
    if max(numbers.values()) > MOST_TRIES:
        raise BadInputError.at("file", f"wanted at most {MOST_TRIES} tries of an item, found {max(numbers.values())}")
    return made


def _split_opening(tried: LoggedTry) -> tuple[str, list[dict[str, Any]]]:
    """An item's prompt and, where it is more than that, its messages."""
    opening = make_storable([dict(one) for one in tried.opening])
    while opening and (opening[-1]["role"] != "user" or not opening[-1]["content"]):
        opening.pop()
    prompt = opening[-1]["content"] if opening else ""
    return prompt, opening if len(opening) > 1 else []


def _add_items(
    project: Project, run: LoggedRun, places: Sequence[_PlacedTry], *, file: str, by: User
) -> tuple[Taskset, dict[str, int]]:
    """A frozen taskset with the items, and hash -> place in it, in the run's order."""
    slug = _slug(run.task or PurePath(file).stem or run.form)
    name = f"imported-{slug}"[:100]
    firsts: dict[str, LoggedTry] = {}
    disputed: set[str] = set()
    for one in places:
        first = firsts.setdefault(one.item, one.tried)
        if content_hash(_plain(first.reference)) != content_hash(_plain(one.tried.reference)):
            disputed.add(one.item)  # it says two things are right: then nothing is
    taskset = Taskset.objects.filter(project=project, name=name).order_by("-version").first()
    if taskset is None or taskset.frozen_at is None or not _holds(taskset, firsts):
        rows = [
            _make_item(line, one, file, reference=None if item in disputed else _plain(one.reference))
            for line, (item, one) in enumerate(firsts.items(), start=1)
        ]
        about = f"What was asked in runs of other tools: {run.task or file}"[:200]
        taskset = add_items(project=project, name=name, environment=ENVIRONMENT, rows=rows, by=by, about=about).taskset
        Taskset.objects.filter(pk=taskset.pk).update(origin=Taskset.Origin.IMPORTED)
        taskset = freeze_taskset(taskset=taskset, by=by)
    held_out = taskset.items.filter(split=Item.Split.HELD_OUT).order_by("id")
    at = {item: place for place, item in enumerate(held_out.values_list("content_hash", flat=True))}
    return taskset, {item: at[item] for item in firsts}


def _holds(taskset: Taskset, items: Mapping[str, Any]) -> bool:
    rows = taskset.items.filter(content_hash__in=items, split=Item.Split.HELD_OUT)
    return rows.count() == len(items)


def _make_item(line: int, tried: LoggedTry, file: str, *, reference: Any) -> ItemRow:
    prompt, messages = _split_opening(tried)
    return ItemRow(
        line=line,
        prompt=prompt,
        split=Item.Split.HELD_OUT,
        reference=reference,
        messages=messages,
        source=make_storable(f"{file}, {tried.place}".strip(", "))[:200],
        category=make_storable(tried.category)[:64],
    )


def _make_row(item_set: ItemSet, place: int, one: _PlacedTry, run: LoggedRun) -> ItemTry:
    tried, item = one.tried, item_set.items[place]
    row = ItemTry(place=place, number=one.number, key=item_set.keys[place], weight=item.weight, category=item.category)
    if tried.score is not None:
        row.outcome = row.step_score = round(tried.score, 4)
        row.grader = make_storable(tried.graded_by)[:64]
    else:
        row.cause = ItemTry.Cause.INFRASTRUCTURE if tried.is_lost else ItemTry.Cause.UNCHECKED
        row.reason = make_storable(tried.cause or "its file has no grade of it")[:300]
    opening = [dict(message) for message in tried.opening]
    said = [dict(message) for message in tried.said]
    draft = AttemptDraft(
        text="\n".join(message["content"] for message in said if message["role"] == "assistant"),
        answer=tried.answer,
        steps=list(_list_steps(said)),
        messages=[*opening, *said],
        served_by=run.model,
        finish_reason=tried.finish_reason,
        error="" if tried.answer or said else tried.cause or "it gave no answer",
    )
    made = make_record(draft, None, opening=opening)
    turns = sum(message["role"] == "assistant" for message in said)
    numbers = {
        "prompt_tokens": tried.prompt_tokens,
        "completion_tokens": tried.completion_tokens,
        "turns": turns or None,
        "seconds": tried.seconds,
        "cost_usd": tried.cost_usd,
    }
    made._replace(numbers=numbers).put_into(row)
    return row


def _list_steps(said: Sequence[Mapping[str, Any]]) -> list[DraftStep]:
    results = {one["tool_call_id"]: one["content"] for one in said if one["role"] == "tool" and one.get("tool_call_id")}
    steps: list[DraftStep] = []
    last = max((n for n, one in enumerate(said) if one["role"] == "assistant" and one["content"]), default=-1)
    for number, message in enumerate(said):
        if message["role"] != "assistant":
            continue
        if message["content"]:
            steps.append(DraftStep(kind="answer" if number == last else "step", text=message["content"]))
        for call in message.get("tool_calls", ()):
            called = call["function"]
            steps.append(
                DraftStep(
                    kind="call",
                    text=called["arguments"],
                    tool_name=called["name"],
                    tool_result=results.get(call["id"], ""),
                )
            )
    return steps


def _stand_in(project: Project, model: str, *, by: User) -> Worker:
    """Who stands for a model that is none of the project's: an outside worker that takes no work."""
    name = f"imported-{_slug(model)[:46]}-{hashlib.sha256(model.encode(errors='replace')).hexdigest()[:8]}"
    there = Worker.objects.filter(project=project, name=name).first()
    if there is not None:
        return there
    made = create_worker(project=project, name=name, kind=Worker.Kind.OUTSIDE, by=by)
    return change_worker(worker=made, by=by, is_active=False)


def _describe(run: LoggedRun, *, file: str, sha256: str) -> dict[str, Any]:
    told = {"form": run.form, "task": run.task, "model": run.model, "made_at": run.made_at, "file": file[:200]}
    settings = {name: value for name, value in run.settings.items() if value not in (None, "", {}, [])}
    made_with: dict[str, Any] = _plain(
        {"imported": told | {"sha256": sha256}, "settings": settings, "learning": NOT_TRAINABLE}
    )
    return made_with


def _plain(value: Any) -> Any:
    """A JSON value that Postgres holds: numbers that are none are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {make_storable(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return make_storable(value)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "run"
