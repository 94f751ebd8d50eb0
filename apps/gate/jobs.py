"""The gate's job, queue `gates`."""

from apps.gate import gating
from apps.outbox.links import link
from apps.worlds.playing import find_measuring_time_s


@link("adapters.gate", time_s=find_measuring_time_s)  # as stored in rows of segments
def gate(adapter_id: int) -> None:
    gating.gate_adapter(adapter_id, by="gate")
