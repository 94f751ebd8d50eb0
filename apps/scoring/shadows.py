"""A task is done once more by the adapter in its worker's shadow, scored like any attempt, and shown to nobody."""

from collections.abc import Sequence

from apps.adapters.models import Adapter, Shadow
from apps.adapters.serving import load
from apps.adapters.shadows import find_shadow
from apps.inference.errors import ModelNotServedError
from apps.inference.services import record_exchanges
from apps.outbox.services import final_write
from apps.scoring.services import score_unsaved_sample
from apps.tasks.models import ShadowAttempt, Task
from apps.workers.agents import can_ask_model, get_agent
from apps.worlds.registry import WORLDS, get_world
from tentalis.core.worlds import AttemptDraft

TURN = "shadow"
"""Its own calls and those of its judges: they are the shadow's cost, not the task's."""


def find_own_shadow(task: Task) -> Shadow | None:
    """The shadow that is to do a task; None for most tasks, and for those that it may not or need not do."""
    if task.parent_id is not None or not _may_try_again(task):
        return None
    shadow = find_shadow(task.worker.line_id, task_id=task.pk)
    if shadow is None or task.attempts.filter(adapter=shadow.adapter).exists():
        return None  # a canary that is in the shadow too has done it in the light
    return shadow


def _may_try_again(task: Task) -> bool:
    """Whether its model is asked here, and a second answer changes nothing: else it would act a second time. A shadow
    answers once: it plays no episodes."""
    world = WORLDS.get(task.environment)
    return can_ask_model(task.worker) and world is not None and world.keeps_nothing and not world.has_turns


def find_mirrored(task_ids: Sequence[int]) -> list[tuple[int, int]]:
    """(id, project's id) of those of the tasks that a shadow is to do. One query where there is no shadow."""
    at_work = Shadow.objects.filter(state=Shadow.State.RUNNING, worker__project__tasks__in=task_ids).exists()
    tasks = Task.objects.filter(pk__in=task_ids).select_related("worker") if at_work else ()
    return [(task.pk, task.project_id) for task in tasks if find_own_shadow(task) is not None]


def mirror_task(task_id: int) -> None:
    """Do a task once in the shadow and keep what came of it, apart from the task.

    Raises:
        ProviderBusyError, ProviderRefusedError: the model could not be asked.
    """
    task = Task.objects.select_related("worker__provider", "project").get(pk=task_id)
    shadow = find_own_shadow(task)
    if shadow is None or ShadowAttempt.objects.filter(shadow=shadow, task=task).exists():
        return
    draft = _try_once(task, shadow.adapter)
    scored = score_unsaved_sample(task, draft, turn=TURN, adapter_name=shadow.adapter.name)
    with final_write():
        (exchange,) = record_exchanges(
            project=task.project,
            drafts=[draft],
            worker_name=task.worker.name,
            model=shadow.adapter.name,
            adapter_name=shadow.adapter.name,
            policy_version=shadow.adapter.version,
            provider=task.worker.provider,
            task_ids=[task.pk],
            turn=TURN,
        )
        ShadowAttempt.objects.create(
            shadow=shadow,
            task=task,
            exchange=exchange,
            answer=draft.answer,
            error=draft.error,
            outcome=scored.verification.outcome if scored.verification else None,
            score=scored.combined.value,
            details={"weights": dict(scored.combined.used_weights)},
        )


def _try_once(task: Task, adapter: Adapter) -> AttemptDraft:
    agent = get_agent(task.worker, task_id=task.pk)

    def work() -> AttemptDraft:
        (group,) = agent.work(
            prompts=[task.prompt],
            world=get_world(task.environment),
            group_size=1,
            seeds=[task.seed],
            model=adapter.name,
        )
        return group[0]

    try:
        return work()
    except ModelNotServedError:
        load(adapter)
        return work()
