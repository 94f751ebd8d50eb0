"""Jobs on adapters, queue `control`."""

from apps.adapters import gating, services, serving
from apps.outbox.links import link


@link("adapters.gate")
def gate(adapter_id: int) -> None:
    gating.gate_adapter(adapter_id, by="gate")


@link("adapters.promote")
def promote(adapter_id: int) -> None:
    services.promote_verified(adapter_id, by="gate")


@link("adapters.hot_swap")
def hot_swap(adapter_id: int) -> None:
    serving.unload_unused(adapter_id, by="gate")
