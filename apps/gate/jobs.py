"""The gate's job, queue `gates`."""

from apps.gate import gating
from apps.outbox.links import link


@link("adapters.gate")  # as stored in rows of segments
def gate(adapter_id: int) -> None:
    gating.gate_adapter(adapter_id, by="gate")
