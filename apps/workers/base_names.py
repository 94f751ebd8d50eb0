"""What the base model under a worker's adapters is called in a spec, and how large it is."""

from typing import TYPE_CHECKING

from django.conf import settings

from apps.workers.kinds import find_kind

if TYPE_CHECKING:
    from apps.workers.models import Worker

BUILT_IN = "desk"
"""What a spec and a worker's directory call the built-in model."""
BUILT_IN_PARAMETERS = 136_000


def needs_directory(worker: "Worker") -> bool:
    """Whether somebody must say where its base weights are: all but the built-in engine's model are not ours."""
    if not find_kind(worker.kind).asks_model:
        return False
    return worker.provider_id is not None or settings.TENTALIS["INFERENCE_BACKEND"] != "engine"


def name_base(worker: "Worker") -> str:
    """What a spec calls the base its adapters are trained on: a directory, or the built-in model; "" for none."""
    return worker.base_directory or ("" if needs_directory(worker) else BUILT_IN)


def count_parameters(worker: "Worker") -> int | None:
    """Numbers in its base model, as far as known."""
    if name_base(worker) == BUILT_IN:
        return BUILT_IN_PARAMETERS
    found = worker.base_facts.get("parameters")
    return found if isinstance(found, int) else None
