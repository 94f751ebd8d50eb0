"""What a run trains, by its purpose: what is written for it, how what came of it is recorded, and what judges that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from apps.adapters.models import Adapter
from apps.adapters.services import record_adapter
from apps.base.errors import IllegalMoveError
from apps.outbox.kinds import SegmentKind
from apps.rollouts.files import write_batch
from apps.scoring.models import RewardModel
from apps.scoring.reward_models import record_reward_model
from apps.training import verdict_managers
from apps.training.audits import write_judgements
from apps.training.labelled import write_steps
from apps.training.models import ManagerRun, TrainingRun
from tentalis.core.contracts import TrainResult
from tentalis.core.learning.recipes import Recipe

TOLD_TWICE = ("run_id", "attempt", "rollouts_sha256")
"""Fields of a spec that the manifest of what it made repeats."""

Trained = Adapter | RewardModel | ManagerRun


@dataclass(frozen=True, kw_only=True)
class Learner:
    """One purpose of runs.

    Args:
        write_batch: the file that a run learns from: (file:// URI, SHA-256 in hex).
        record: what a result trained, into its registry, by whom; None where nobody waits for it any more. It raises
            AdapterBrokenError before it writes anything.
        publish: the segment in which that is judged.
        give_up: called when a run ended without anything trained, by whom.
    """

    write_batch: Callable[[TrainingRun], tuple[str, str]]
    record: Callable[[TrainingRun, TrainResult, str], Trained | None]
    publish: SegmentKind
    give_up: Callable[[TrainingRun, str], None] = lambda run, by: None


def record_policy(run: TrainingRun, result: TrainResult, by: str) -> Adapter:
    """Record a worker's adapter."""
    return record_adapter(
        worker=run.worker,
        end_user=run.end_user,
        parent=run.parent,
        run_id=run.pk,
        uri=result.adapter_uri,
        sha256=result.sha256,
        by=by,
        is_rebuilt=run.rebuilds_id is not None,
        made_by={name: run.spec[name] for name in TOLD_TWICE if name in run.spec},
    )


def record_head(run: TrainingRun, result: TrainResult, by: str) -> RewardModel:
    """Record a step scorer."""
    return record_reward_model(worker=run.worker, run_id=run.pk, uri=result.adapter_uri, sha256=result.sha256, by=by)


def _write_rollouts(run: TrainingRun) -> tuple[str, str]:
    if run.batch is None:
        raise IllegalMoveError(f"run {run.pk} has no batch: wanted one to learn a policy from")
    return write_batch(run.batch, most_voice_share=Recipe.from_json(run.recipe).most_voice_share)


LEARNERS: Mapping[str, Learner] = {
    TrainingRun.Purpose.POLICY: Learner(write_batch=_write_rollouts, record=record_policy, publish=SegmentKind.ADOPT),
    TrainingRun.Purpose.REWARD_MODEL: Learner(
        write_batch=write_steps, record=record_head, publish=SegmentKind.ADOPT_SCORER
    ),
    TrainingRun.Purpose.MANAGER: Learner(
        write_batch=write_judgements,
        record=verdict_managers.record_adapter,
        publish=SegmentKind.ADOPT_MANAGER,
        give_up=verdict_managers.refuse_untrained,
    ),
}
