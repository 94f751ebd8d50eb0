"""How long files are kept: each directory that grows has a rule, and what nothing needs any longer goes in parts."""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.adapters.models import Adapter, Deployment
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.evals.models import Benchmark
from apps.inference import pictures
from apps.training.models import TrainingRun
from tentalis.core.learning.lengths import FILE as LENGTHS_FILE

logger = logging.getLogger(__name__)

A_ROUND = 200
"""Files and directories of one rule that a round of the timetable deletes at most; the next one goes on."""
DAYS = "RETENTION_FILE_DAYS"
STAGING = ".staging-"
WORKING_FILES = frozenset({"checkpoint", "checkpoints", "data.jsonl", "export", "saved", LENGTHS_FILE})
"""What an attempt at a training leaves that is of use only while the training may go on."""
ENDED = (
    TrainingRun.State.SUCCEEDED,
    TrainingRun.State.FAILED,
    TrainingRun.State.REFUSED,
    TrainingRun.State.CANCELLED,
)


@dataclass(frozen=True)
class DirectoryRule:
    """What becomes of what lies in a directory.

    Args:
        words: what is kept and why, or when it goes.
        delete: deletes at most so many files or directories and returns how many; None: its writer does, or nobody.
        setting: name of the setting of its days, without prefix; "" where no days are counted.
    """

    words: str
    delete: Callable[[int], int] | None = None
    setting: str = ""


def delete_old_files(*, most: int = A_ROUND) -> dict[str, int]:
    """Delete what is kept no longer, at most so much of each directory. Returns how much of each."""
    deleted: dict[str, int] = {}
    for name, rule in DIRECTORY_RULES.items():
        if rule.delete is None:
            continue
        try:
            count = rule.delete(most)
        except OSError:
            logger.exception("%s: what is kept no longer could not be deleted", name)
            continue
        if count:
            deleted[name] = count
    if deleted:
        logger.info("files kept no longer: %s", ", ".join(f"{count} of {name}" for name, count in deleted.items()))
    return deleted


def _days() -> timedelta:
    return timedelta(days=settings.TENTALIS[DAYS])


def _is_old(path: Path) -> bool:
    try:
        return path.lstat().st_mtime < time.time() - _days().total_seconds()
    except FileNotFoundError:
        return False


def _list(directory: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from directory.iterdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _ended_long_ago() -> QuerySet[TrainingRun]:
    """Whoever holds such a row's lock keeps it from being tried again meanwhile."""
    return TrainingRun.objects.filter(state__in=ENDED, finished_at__lt=Now() - _days())


def _delete_records(directory_name: str, owner: str) -> Callable[[int], int]:
    """Of a directory of records that train, whose files' names begin with their owner's number.

    Args:
        owner: field of a training that this number is.
    """

    def delete(most: int) -> int:
        deleted = 0
        for path in _list(settings.ARTIFACTS / directory_name):
            if deleted >= most:
                break
            if not _is_old(path):
                continue
            number = path.name.partition("-")[0]
            if path.name.startswith(STAGING):  # its writer died
                _remove(path)
                deleted += 1
            elif number.isdigit():
                deleted += _delete_record_file(path, Q(**{owner: int(number)}))
        return deleted

    return delete


def _delete_record_file(path: Path, owned: Q) -> bool:
    with transaction.atomic():
        run = _ended_long_ago().select_for_update(of=("self",)).filter(owned).first()
        if run is None or _may_be_trained_again(run, path):
            return False
        _remove(path)
    return True


def _may_be_trained_again(run: TrainingRun, path: Path) -> bool:
    """Whether it is what a training that came to something learnt from: `reproduce` reads it."""
    if run.state != TrainingRun.State.SUCCEEDED or run.spec.get("rollouts_uri") != path.resolve().as_uri():
        return False
    return not Adapter.objects.filter(run_id=run.pk, state=Adapter.State.REFUSED).exists()


def _delete_working_files(most: int) -> int:
    deleted = 0
    for directory in _list(settings.ARTIFACTS / "runs"):
        if deleted >= most:
            break
        found = [path for path in directory.glob("*/*") if path.name in WORKING_FILES or path.name.startswith(STAGING)]
        if not found or not directory.name.isdigit():
            continue
        with transaction.atomic():
            if not _ended_long_ago().select_for_update(of=("self",)).filter(pk=int(directory.name)).exists():
                continue
            for path in found[: most - deleted]:
                _remove(path)
                deleted += 1
    return deleted


def _delete_refused_weights(most: int) -> int:
    """The manifest stays: provenance names it by its hash, and it holds the hashes of the rest."""
    said = AuditEntry.objects.filter(
        kind=Kind.ADAPTER_REFUSED, subject_type="adapter", subject_id=OuterRef("pk"), at__lt=Now() - _days()
    )
    continued = TrainingRun.objects.filter(parent=OuterRef("pk"))
    tried = Deployment.objects.filter(canary=OuterRef("pk"))
    refused = Adapter.objects.filter(
        Exists(said), ~Exists(continued), ~Exists(tried), state=Adapter.State.REFUSED, children=None
    )
    deleted = 0
    for adapter in refused.order_by("pk").only("pk", "uri", "manifest").iterator(chunk_size=200):
        try:
            directory = path_of(adapter.uri)
        except AdapterBrokenError:
            continue  # kept at a service, or from elsewhere
        for name in adapter.manifest.get("files", {}):
            path = directory / name
            if Path(name).name == name and path.is_file():
                if deleted >= most:
                    return deleted
                path.unlink()
                deleted += 1
    return deleted


def _delete_adapters_and_working_files(most: int) -> int:
    deleted = _delete_working_files(most)
    return deleted + _delete_refused_weights(most - deleted)


def _delete_old_of(directory_name: str) -> Callable[[int], int]:
    def delete(most: int) -> int:
        found = [path for path in _list(settings.ARTIFACTS / directory_name) if _is_old(path)][:most]
        for path in found:
            _remove(path)
        return len(found)

    return delete


def _delete_unshown_pictures(most: int) -> int:
    """Those that no item of a benchmark shows."""
    found = [path for path in _list(settings.ARTIFACTS / pictures.DIRECTORY) if _is_old(path)]
    if not found:
        return 0
    shown = set()
    for benchmark in Benchmark.objects.filter(needs__contains=["pictures"]).select_related("taskset"):
        item = benchmark.taskset.items.exclude(messages=[]).first()
        shown.add(pictures.name_kept(item.messages) if item else "")
    unshown = [path for path in found if path.stem not in shown][:most]
    for path in unshown:
        _remove(path)
    return len(unshown)


_RECORDS = "records that trained: of trainings that succeeded kept, `reproduce` reads them; of others and of refused "
_RECORDS += "adapters they go that long after the training ended"

DIRECTORY_RULES: Mapping[str, DirectoryRule] = {
    "artifacts": DirectoryRule("adapters and records; its directories have rules of their own"),
    "artifacts/batches": DirectoryRule(_RECORDS, _delete_records("batches", "batch_id"), DAYS),
    "artifacts/steps": DirectoryRule(_RECORDS, _delete_records("steps", "pk"), DAYS),
    "artifacts/judgements": DirectoryRule(_RECORDS, _delete_records("judgements", "pk"), DAYS),
    "artifacts/runs": DirectoryRule(
        "adapters, specs, results and curves: kept; checkpoints and working files go that long after the training "
        "ended, weights of a refused adapter that nothing continued that long after it was refused (its manifest "
        "stays)",
        _delete_adapters_and_working_files,
        DAYS,
    ),
    "artifacts/pictures": DirectoryRule(
        "pictures of benchmarks' items; those that none shows go after that long", _delete_unshown_pictures, DAYS
    ),
    "artifacts/pieces": DirectoryRule(
        "rows of a benchmark that nobody asked for: they go after that long", _delete_old_of("pieces"), DAYS
    ),
    "artifacts/repo_tasks": DirectoryRule("tasks of own repositories: kept until `tentalis repo-task remove NAME`"),
    "artifacts/uploads": DirectoryRule(
        "files that were sent for tasks: they go that long after a task was last made of them",
        _delete_old_of("uploads"),
        DAYS,
    ),
    "artifacts/scales": DirectoryRule(
        "left by a measurement that was killed: they go after that long", _delete_old_of("scales"), DAYS
    ),
    "artifacts/observations": DirectoryRule(
        "the whole of what a world said, where its model was shown a part, which stays: they go after that long; "
        "`forget` deletes a person's",
        _delete_old_of("observations"),
        DAYS,
    ),
    "spool": DirectoryRule(
        "what gateways stored goes at once; `rejected`, of bounded size, when nothing joined it for so long (the "
        "gateway)",
        setting=DAYS,
    ),
    "logs": DirectoryRule("rotated at 10 MiB, three kept of each service (whoever writes them)"),
    "run": DirectoryRule("what is true only while it runs: does not grow with use"),
    "postgres": DirectoryRule("the embedded database: its tables have rules of their own"),
    "redis": DirectoryRule("the embedded queue's data: does not grow with use"),
    "sandboxes": DirectoryRule("images and snapshots of the sandbox host: gone when it ends or is started again"),
    "backups": DirectoryRule("as many as `tentalis backup --keep COUNT` says; older ones go when one is made"),
}
"""Directory, under the home or as an artifact store -> its rule. One that is written without a rule fails a test."""
