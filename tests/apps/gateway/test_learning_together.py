"""Workers that learn with one are asked by their own names and served by its adapters."""

from apps.accounts.models import Project
from apps.gateway.loading import load_tables
from apps.gateway.tables import Served
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayThread
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.test_per_user import ask, put
from tests.apps.gateway.upstream import StubUpstream
from tests.factories import make_worker


def make_learner(helper: Worker) -> Worker:
    return make_worker(
        helper.project,
        "second",
        Worker.Kind.CHAT,
        provider=helper.provider,
        base_model=helper.base_model,
        learns_with=helper,
    )


def test_both_are_served_by_the_lines_adapter_until_one_leaves(
    gateway: GatewayThread, token: str, helper: Worker, upstream: StubUpstream
) -> None:
    second, adapter = make_learner(helper), put(helper, 1)
    upstream.load(adapter.name)
    wait_for(lambda: ask(gateway, token, "second") == adapter.name)
    assert ask(gateway, token) == adapter.name
    wait_for(lambda: len(gateway.records) >= 2)
    told = {(record.header["worker"], record.header["adapter"]) for record in gateway.records}
    assert {("second", adapter.name), ("helper", adapter.name)} <= told, "who was asked stays known"
    Worker.objects.filter(pk=second.pk).update(learns_with=None)
    wait_for(lambda: ask(gateway, token, "second") != adapter.name)
    assert ask(gateway, token) == adapter.name


def test_a_persons_own_adapter_serves_them_whichever_of_the_workers_they_ask(
    gateway: GatewayThread, token: str, helper: Worker, upstream: StubUpstream
) -> None:
    Worker.objects.filter(pk=helper.pk).update(adapters_per=Worker.AdaptersPer.USER)
    make_learner(helper)
    everybodys, graces = put(helper, 1), put(helper, 2, "grace")
    for adapter in (everybodys, graces):
        upstream.load(adapter.name)
    wait_for(lambda: ask(gateway, token, "second", user="grace") == graces.name)
    assert ask(gateway, token, "second", user="ada") == everybodys.name


def test_an_adapter_is_known_by_name_though_its_own_worker_is_off(
    project: Project, helper: Worker, upstream: StubUpstream
) -> None:
    make_learner(helper)
    adapter = put(helper, 1)
    served = Served(adapter.name, adapter.name, 1)

    def found() -> tuple[str, Served]:
        route, pinned = load_tables().adapters[project.pk, adapter.name]
        return route.name, pinned

    assert found() == ("helper", served)
    Worker.objects.filter(pk=helper.pk).update(is_active=False)
    assert found() == ("second", served)
    tables = load_tables()
    assert tables.workers[project.pk, "second"].deployed == served
    assert list(tables.list_models(project.pk)).count(adapter.name) == 1
