"""The figures for Prometheus, read when asked: whichever web process answers, they are the same."""

from collections.abc import Iterable, Iterator

from django.db import connection
from django.db.utils import Error as DatabaseError
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.operations.figures import Figures, measure

PREFIX = "tentalis"
Values = Iterable[tuple[tuple[str, ...], float]]


class FigureCollector(Collector):
    """Asks the database at every scrape; without it `tentalis_up` is 0 and nothing else is said."""

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(f"{PREFIX}_up", "")]  # registering asks nobody

    def collect(self) -> Iterator[Metric]:
        try:
            figures = measure()
        except DatabaseError:
            yield GaugeMetricFamily(f"{PREFIX}_up", "Whether the database answers.", value=0)
            return
        yield GaugeMetricFamily(f"{PREFIX}_up", "Whether the database answers.", value=1)
        for name, words, labels, values in describe(figures):
            family = GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=labels)
            for given, value in values:
                family.add_metric(given, value)
            yield family
        yield from _describe_pool()


def describe(now: Figures) -> Iterator[tuple[str, str, tuple[str, ...], Values]]:
    """(name, words, names of labels, values) of every gauge."""
    kind, place, service, none = ("kind",), ("place",), ("service",), ()
    queues = [((queue.kind,), queue) for queue in now.queues]
    yield "queue_open", "Segments that are not done.", kind, [(label, q.open) for label, q in queues]
    yield "queue_oldest_seconds", "The oldest due one nobody took.", kind, [(label, q.oldest_s) for label, q in queues]
    yield "leases_held", "Segments somebody works on.", kind, [(label, q.held) for label, q in queues]
    yield "leases_expired", "Of those, whose lease is over.", kind, [(label, q.expired) for label, q in queues]
    yield "dead_letters", "Segments that were given up.", kind, [(label, q.dead) for label, q in queues]
    yield "audit_unsealed", "Entries without a place in the chain.", none, [((), now.unsealed)]
    yield "audit_unsealed_seconds", "Age of the oldest of them.", none, [((), now.unsealed_s)]
    yield "audit_faults", "What the last verification found.", none, [((), now.chain_faults)]
    yield "trainings_untaken", "Trainings that no box takes up.", none, [((), now.untaken)]
    yield "training_untaken_seconds", "How long the oldest has waited for one.", none, [((), now.untaken_s)]
    yield "webhook_messages_due", "Messages to webhooks that are due.", none, [((), now.deliveries)]
    yield "webhook_oldest_seconds", "How long the oldest has been due.", none, [((), now.delivery_s)]
    yield "database_connections", "Connections of all processes.", none, [((), now.connections)]
    yield "database_connections_limit", "How many the server allows.", none, [((), now.most_connections)]
    yield "disk_free_bytes", "Free where it lies.", place, [((disk.place,), disk.free_bytes) for disk in now.disks]
    yield "disk_size_bytes", "Size of that disk.", place, [((disk.place,), disk.size_bytes) for disk in now.disks]
    yield "spool_behind_bytes", "Recorded by the gateway, not stored yet.", none, [((), now.spool_behind_bytes)]
    yield "spool_rejected_bytes", "Recorded, and never to be stored.", none, [((), now.spool_rejected_bytes)]
    yield "service_restarts", "Since the supervisor began.", service, [((s.name,), s.restarts) for s in now.services]
    yield (
        "service_up",
        "Whether it is as it should be.",
        service,
        [((s.name,), float(s.state in {"ready", "done"})) for s in now.services],
    )
    yield "server_away_seconds", "Model servers in use.", ("server",), [((s.name,), s.away_s) for s in now.servers]
    budgets = [((one.project, one.name), one.used / one.limit) for one in now.budgets]
    yield "budget_used_ratio", "Of what a project may use in its day or month.", ("project", "budget"), budgets
    if now.backup_s is not None:
        yield "backup_age_seconds", "Since the last backup.", none, [((), now.backup_s)]
    if now.drill_s is not None:
        yield "drill_age_seconds", "Since a backup was last tried out.", none, [((), now.drill_s)]
    yield "alarms_open", "Alarms, by rule.", ("rule",), [((rule,), count) for rule, count in now.alarms.items()]


def _describe_pool() -> Iterator[Metric]:
    """Of the process that answers, where it has a pool."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        return
    stats = pool.get_stats()
    family = GaugeMetricFamily(f"{PREFIX}_database_pool", "Connections of the process that answers.", labels=["what"])
    for name in ("pool_size", "pool_max", "pool_available", "requests_waiting"):
        family.add_metric([name.removeprefix("pool_")], stats.get(name, 0))
    yield family


def register() -> None:
    REGISTRY.register(FigureCollector())
