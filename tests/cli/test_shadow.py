"""`tentalis shadow` speaks of what is, and says why it cannot."""

from apps.adapters.models import Shadow
from apps.workers.models import Worker
from tests.apps.adapters.test_deployment import make_adapter
from tests.cli.conftest import Run


def test_a_shadow_is_shown_and_stopped(signed_in: Run) -> None:
    adapter = make_adapter(Worker.objects.get(), 1)
    none = signed_in("shadow", "show", adapter.name)
    assert (none.code, "is in no shadow" in none.err) == (1, True)
    Shadow.objects.create(worker=adapter.worker, adapter=adapter, percent=10, after_task=0)
    shown = signed_in("shadow", "show", adapter.name, "--json").json
    assert (shown["percent"], shown["attempts"], shown["outcome"]) == (10, 0, "watching")
    assert "20 of each are wanted first" in shown["words"]
    assert signed_in("shadow", "start", adapter.name, "51").code == 2
    stopped = signed_in("shadow", "stop", adapter.name)
    assert (stopped.code, Shadow.objects.get().outcome) == (0, "stopped")
