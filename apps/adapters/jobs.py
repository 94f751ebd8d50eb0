"""Jobs on adapters, queue `gates`."""

from apps.adapters import services, serving
from apps.outbox.links import link


@link("adapters.promote")
def promote(adapter_id: int) -> None:
    services.promote_verified(adapter_id, by="gate")


@link("adapters.hot_swap")
def hot_swap(adapter_id: int) -> None:
    serving.unload_unused(adapter_id)
