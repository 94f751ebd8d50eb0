"""Runs that train on somebody else's machines: sent to queue `cluster`, and asked after from the timetable.

A message is a nudge: whoever gets it starts the run's job or looks at it. It may come never, once or twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.db.models.functions import Now
from kombu.exceptions import OperationalError as BrokerError

from apps.adapters.artifacts import path_of
from apps.base.errors import BadInputError
from apps.outbox.errors import BrokerAwayError
from apps.rollouts.examples import find_several
from apps.rollouts.models import Batch
from apps.training import run_control
from apps.training.box import key_of
from apps.training.models import TrainingRun
from apps.training.rewards import issue_reward_url
from apps.workers.kinds import find_kind
from tentalis.celery import app
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning import openrlhf_recipes
from tentalis.core.learning.head_recipes import HeadRecipe
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError
from tentalis.core.learning.recipes import Recipe, RecipeError

BACKEND = "openrlhf"
TEND = "gpu.tend"
QUEUE = "cluster"
EXPIRES_S = 60
RESULT_FILE = "result.json"
STRAY_FOR = timedelta(days=1)
GIVEN_UP = (TrainingRun.State.CANCELLED, TrainingRun.State.FAILED, TrainingRun.State.PAUSED)


def name_job(run_id: int, attempt: int) -> str:
    """An attempt's name with the cluster; the box gives its job this one."""
    return f"run-{run_id}-{attempt}"


def describe(run: TrainingRun) -> dict[str, Any]:
    """What a run's spec says besides, on the cluster: `options`."""
    form = find_kind(run.worker.kind).form
    stops = {"stops": list(form.stops)} if form else {}
    return {"options": {**stops, **settings.TENTALIS["OPENRLHF_OPTIONS"]}}


def require_trainable(run: TrainingRun) -> None:
    """See that the cluster could train a run that is for it, in the transaction that queues it.

    Raises:
        BadInputError: it could not; in words that name the field, and who can.
    """
    if run.backend != BACKEND or run.batch is None:
        return
    recipe, batch = Recipe.from_json(run.recipe), run.batch
    is_weighted = batch.kind != Batch.Kind.ROLLOUTS
    weights = set(batch.items().values_list("weight", flat=True)) if is_weighted else set()
    several = find_several(batch) if batch.kind == Batch.Kind.PAIRS else []
    with _in_words("recipe"):
        openrlhf_recipes.require_trainable(
            recipe, _read_options(), tasks=batch.task_count, weights=sorted(weights), several=several
        )


def require_trainable_head(recipe: HeadRecipe) -> None:
    """The same for a step scorer that is asked of the cluster."""
    with _in_words("recipe"):
        openrlhf_recipes.require_head(recipe, _read_options())


def _read_options() -> ClusterOptions:
    """Raises ClusterOptionsError where the installation's are not what they must be, or it has no cluster."""
    if not settings.TENTALIS["RAY_URL"]:
        raise ClusterOptionsError("backend: this installation has no cluster: TENTALIS_RAY_URL must name one")
    return ClusterOptions.from_json(settings.TENTALIS["OPENRLHF_OPTIONS"])


@contextmanager
def _in_words(field: str) -> Iterator[None]:
    try:
        yield
    except RecipeError as error:
        raise BadInputError(str(error), errors={field: [str(error)]}) from None


def poll_job(spec: TrainSpec) -> None:
    """Have the spec's job started, or looked at.

    Raises:
        BrokerAwayError: nothing was sent.
    """
    _nudge(spec, issue_reward_url(spec.run_id, spec.attempt))


def _nudge(spec: TrainSpec, reward_url: str) -> None:
    try:
        app.signature(TEND, args=[spec.to_json(), reward_url, key_of(spec)], queue=QUEUE, immutable=True).apply_async(
            retry=False, expires=EXPIRES_S
        )
    except (BrokerError, redis.RedisError, OSError) as error:
        raise BrokerAwayError(f"the broker cannot be reached: {error}") from error


def poll_all_jobs() -> int:
    """Ask after every run that trains on the cluster, and after what may train there though it is over here.

    Returns:
        How many were asked after.
    Raises:
        BrokerAwayError: the broker is away; the timetable comes back.
    """
    running = TrainingRun.objects.filter(state=TrainingRun.State.RUNNING, backend=BACKEND)
    specs = list(running.values_list("spec", flat=True))
    for spec in specs:
        poll_job(TrainSpec.from_json(spec))
    stray = find_stray()
    for spec in stray:
        _nudge(spec, "")
    return len(specs) + len(stray)


def find_stray() -> list[TrainSpec]:
    """Attempts that were given up here and asked to stop, and of which the cluster has not said that they did.

    Somebody was forgotten, or nobody heard of it: its job would train to its end for nobody. The box writes a result
    when it has stopped one; after `STRAY_FOR` nobody asks any more.
    """
    ended = TrainingRun.objects.filter(state__in=GIVEN_UP, backend=BACKEND, heartbeat_at__gt=Now() - STRAY_FOR)
    specs = [TrainSpec.from_json(run.spec) for run in ended if run_control.find_request(run).what]
    return [spec for spec in specs if not (path_of(spec.output_uri) / RESULT_FILE).exists()]
