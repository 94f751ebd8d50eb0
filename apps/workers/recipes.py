"""How a worker learns: the project's recipe over the installation's over the one for its kind and its model's size."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings

from apps.accounts.models import Project
from apps.workers.base_names import count_parameters
from apps.workers.kinds import find_kind
from tentalis.core.learning.recipes import CLIPPED, RECIPES, Recipe, choose_learning_rate

if TYPE_CHECKING:
    from apps.workers.models import Worker


def choose_recipe(project: Project, worker: "Worker", *, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The changes over the project's recipe over the settings over the measured one for this kind of worker."""
    kind = find_kind(worker.kind)
    start = RECIPES[kind.recipe].to_json()
    if worker.base_directory or not kind.base_model:  # a kind's own model is what its recipe was measured on
        start["learning_rate"] = choose_learning_rate(count_parameters(worker))
    installation = {
        "w_rl": settings.TENTALIS["RL_WEIGHT"],
        "w_opd": settings.TENTALIS["OPD_WEIGHT"],
        "opd_mode": settings.TENTALIS["OPD_MODE"],
        "clip_low": settings.TENTALIS["TRAINING_CLIP_EPSILON"],
        "clip_high": settings.TENTALIS["TRAINING_CLIP_EPSILON_HIGH"],
        "teacher": settings.TENTALIS["OPD_TEACHER_MODEL"] or "base",
    }
    asked = project.recipe | dict(changes or {})
    if str(asked.get("algorithm", "grpo")) not in CLIPPED:
        # the measured cap is of a clipped loss; who asks for one with another algorithm is told so
        start["importance_cap"] = None
    return Recipe.from_json(start | installation | asked)
