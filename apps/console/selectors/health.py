"""How everything is that a project's work needs: processes, stores, model servers, queues, disks."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.models import Project
from apps.base.views import find_broker_fault, find_database_fault
from apps.inference.models import Provider
from apps.operations.figures import Disk, Supervised, find_disks, find_services
from apps.operations.models import Alarm, ServerLook
from apps.outbox.selectors import ServerWait, find_dead, find_server_wait
from apps.reports.queues import QueueDepth, find_open_queues
from apps.workers.models import Worker
from tentalis.plugins import Plugin, list_plugins

MOST = 100
LOW_SHARE = 0.1


@dataclass(frozen=True)
class Part:
    """Something the whole stands on; `fault` "" while it is as it should be."""

    name: str
    fault: str


@dataclass(frozen=True)
class Room:
    """A disk; `share` of it that is free, in [0, 1]."""

    disk: Disk

    @property
    def share(self) -> float:
        return self.disk.free_bytes / max(self.disk.size_bytes, 1)

    @property
    def percent(self) -> int:
        return round(100 * self.share)

    @property
    def is_low(self) -> bool:
        return self.share < LOW_SHARE


@dataclass(frozen=True)
class Health:
    """What the health page shows.

    Attributes:
        stores: database and broker, asked just now.
        services: () where no supervisor of this machine is known.
        looks: servers that are looked at every so often; tested: those of vendors, by their last test alone.
        waits: work that waits for a server; None where none does.
        dead: pieces of work that failed for good, up to `MOST`.
        alarms: of the whole installation.
        plugins: what other packages add to it, used or not.
    """

    stores: Sequence[Part]
    services: Sequence[Supervised]
    looks: Sequence[ServerLook]
    tested: Sequence[Provider]
    waits: ServerWait | None
    depths: Sequence[QueueDepth]
    dead: int
    rooms: Sequence[Room]
    alarms: Sequence[Alarm]
    plugins: Sequence[Plugin]

    @property
    def is_well(self) -> bool:
        is_up = all(service.state in {"ready", "done"} for service in self.services)
        answers = not any(look.away_since for look in self.looks)
        return is_up and answers and not (self.alarms or self.dead or any(part.fault for part in self.stores))


def read_health(project: Project) -> Health:
    """Seven queries, a ping of the broker, a look at the disks and at what the supervisor wrote."""
    used = Worker.objects.filter(project=project, is_active=True, provider__isnull=False).values("provider")
    looks = list(ServerLook.objects.filter(projects__contains=[project.pk]).order_by("provider_id")[:MOST])
    looked_at = [one.provider_id for one in looks]
    return Health(
        stores=[
            Part("Connection to Postgres", find_database_fault()),
            Part("Connection to Redis", find_broker_fault()),
        ],
        services=list(find_services()),
        looks=looks,
        tested=list(Provider.objects.filter(pk__in=used).exclude(pk__in=looked_at).order_by("name")[:MOST]),
        waits=find_server_wait(project.pk),
        depths=find_open_queues(project),
        dead=find_dead(project.pk)[:MOST].count(),
        rooms=[Room(disk) for disk in find_disks()],
        alarms=list(Alarm.objects.filter(state=Alarm.State.OPEN).order_by("-id")[:MOST]),
        plugins=list_plugins(),
    )
