"""Models kept in this machine's home, as bases of workers on the installation's own engine."""

from django.conf import settings

from apps.workers.base_names import BUILT_IN
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from tentalis.core.sizes import say_bytes
from tentalis.kept_models import KeptModel, count_room, list_models, models_directory


def list_kept() -> list[KeptModel]:
    """What the engine reads when a worker is asked; none where another server stands in its place."""
    return list_models(settings.HOME) if settings.TENTALIS["INFERENCE_BACKEND"] == "engine" else []


def take_kept(worker: Worker) -> None:
    """Point a worker on the installation's own engine to the files of the kept model that it names."""
    if worker.provider is not None or not find_kind(worker.kind).asks_model:
        return
    root = models_directory(settings.HOME)
    if worker.base_directory and not worker.base_directory.startswith(f"{root}/"):
        return  # somebody said where
    kept = {model.name: str(model.directory) for model in list_kept()}
    worker.base_directory = kept.get(worker.base_model, "")


def say_not_kept(worker: Worker) -> str:
    """Why the installation's own engine has no such model, or no room for it; "" where it has both, or another server
    is asked."""
    if worker.provider is not None or not find_kind(worker.kind).asks_model:
        return ""
    if worker.base_directory:
        return _say_too_large(worker)
    if settings.TENTALIS["INFERENCE_BACKEND"] != "engine" or worker.base_model in {"", BUILT_IN}:
        return ""
    names = ", ".join(model.name for model in list_kept()) or "none"
    return (
        f"wanted a model kept on this machine ({names}; `tentalis model get NAME` fetches one), or a model server; "
        f"found {worker.base_model!r}"
    )


def _say_too_large(worker: Worker) -> str:
    """Why the engine cannot read the kept model that a worker names; "" where it can."""
    model = next((one for one in list_kept() if str(one.directory) == worker.base_directory), None)
    room = count_room(settings.TENTALIS["ENGINE_MEMORY_MIB"])
    if model is None or model.facts is None or model.facts.memory_bytes <= room:
        return ""
    return (
        f"{model.name} takes {say_bytes(model.facts.memory_bytes)} of memory, and kept models may take "
        f"{say_bytes(room)} together on this machine (TENTALIS_ENGINE_MEMORY_MIB)"
    )
