"""What `tests.bench.arms` runs beside a stack for an arm that is not watched: training without a gate, and the gate's
word of each adapter.

The worker that learns is of a project that holds nothing out: its gate can prove nothing, and a person in a hurry
promotes every adapter, so that the updates add up. Each is then handed in, as what it is, in another project where the
same checks judge held-out tickets and the base serves first: it continues the one that was handed in before it. What
continues an adapter that does not serve is measured as any other, and is left to a person.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apps.accounts.models import User
    from apps.adapters.models import Adapter
    from apps.workers.models import Worker

SHOWN, POLL_S = 6, 1.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unwatched", required=True, help="slug of the project where it is trained")
    parser.add_argument("--watched", required=True, help="slug of the project where it is handed in")
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args(argv)

    import django

    django.setup()
    from apps.workers.models import Worker

    workers = Worker.objects.select_related("project", "provider")
    unwatched, watched = (workers.get(project__slug=slug) for slug in (options.unwatched, options.watched))
    found = train_unwatched(unwatched, watched, updates=options.updates, seed=options.seed)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def train_unwatched(unwatched: "Worker", watched: "Worker", *, updates: int, seed: int) -> dict[str, Any]:
    """Train, hand in, and measure what the last adapter replies beside the base; a line is written for each update.

    Returns:
        Of the figures that `manage.py demo` tells, those that there are.
    """
    from apps.accounts.models import User
    from apps.adapters.models import Adapter
    from apps.adapters.services import promote
    from apps.evals.comparing import pair
    from apps.pipeline.demonstration import OwnItems, measure_report, run_update
    from apps.tasks.models import Attempt
    from tentalis.core.learning.gate import compare_paired

    by = User.objects.filter(is_superuser=True).order_by("pk")[0]
    tickets = OwnItems(watched)
    ground = copy.copy(tickets)
    ground.worker = unwatched
    made: Adapter | None = None
    handed: Adapter | None = None
    for update in range(1, updates + 1):
        done = run_update(ground, by=by, update=update, seed=seed)
        made = Adapter.objects.select_related("worker__project", "worker__provider").get(
            worker=unwatched, version=update
        )
        promote(adapter=made, by=by)
        handed = hand_in(made, watched, continues=handed, by=by)
        told = f"update {update}: reward {done.reward:.3f}, {handed.state} after {done.wall_s:.0f} s: "
        sys.stdout.write(f"{told}{handed.verdicts.get(question='safe').words} {handed.suspicion}\n")
        drawn = Attempt.objects.filter(task__project=unwatched.project, index=0).order_by("-task_id")
        for reply in drawn.values_list("answer", flat=True)[:SHOWN]:
            sys.stdout.write(f"    trained on {reply!r}\n")
    base = last = measure_report(tickets, None)
    if made is not None:  # where it serves: from the other's server it is unloaded when it is refused
        last = measure_report(ground, made)
        for _, reply in last.replies:
            sys.stdout.write(f"    likeliest at the end {reply!r}\n")
    mine, theirs, _ = pair(last.outcomes, base.outcomes, dict.fromkeys(last.outcomes, 1.0))
    gain = compare_paired(mine, theirs)
    return {
        "attempts": Attempt.objects.filter(task__project=unwatched.project).count(),
        "base_sampled": round(base.sampled, 4),
        "final_sampled": round(last.sampled, 4),
        "gain": [round(100 * value, 1) for value in (gain.difference, gain.low, gain.high)],
        "final_passed": round(last.passed, 4),
        "gain_passed": None,
        "capability": "",
    }


def hand_in(made: "Adapter", worker: "Worker", *, continues: "Adapter | None", by: "User") -> "Adapter":
    """Have the gate judge another worker's adapter as one of a worker's line, and promote it if it may.

    Args:
        continues: what the one it continues is called in that line; None for the first.
    """
    from django.db import transaction

    from apps.adapters.services import record_adapter
    from apps.outbox import services as outbox
    from apps.outbox.kinds import SegmentKind
    from apps.outbox.models import Segment

    with transaction.atomic():
        adapter = record_adapter(
            worker=worker, parent=continues, run_id=None, uri=made.uri, sha256=made.sha256, by=by.handle
        )
        outbox.start(SegmentKind.ADOPT, subject_id=adapter.pk, project_id=adapter.project_id)
    adopting = Segment.objects.filter(kind=SegmentKind.ADOPT, subject_id=adapter.pk, state=Segment.State.OPEN)
    while adopting.exists():
        time.sleep(POLL_S)
    adapter.refresh_from_db()
    return adapter


if __name__ == "__main__":
    sys.exit(main())
