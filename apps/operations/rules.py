"""When a person is to be told: one table of condition, patience and words."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from apps.operations.figures import Figures
from tentalis.core.alarms import Broken, Rule

QUEUE_S = 300.0
LEASE_S = 120.0
SEALING_S = 120.0
DELIVERY_S = 900.0
UNTAKEN_S = 600.0
DISK_SHARE = 0.05
DISK_BYTES = 512 * 2**20
CONNECTIONS_SHARE = 0.9
SPOOL_BYTES = 32 * 2**20
RESTARTED_S = 600.0
DOWN_S = 60.0
AWAY_S = 60.0
BUDGET_SHARE = 0.8
HOUR_S = 3600.0


@dataclass(frozen=True)
class Trouble:
    rule: Rule
    subject: str
    words: str


def _queues(now: Figures) -> Broken:
    for queue in now.queues:
        if queue.oldest_s > QUEUE_S:
            words = f"{queue.kind}: the oldest of {queue.open} open segments is due for {_minutes(queue.oldest_s)}"
            yield queue.kind, f"{words} and nobody took it: are the queue processes alive, or is there too much work?"


def _letters(now: Figures) -> Broken:
    for queue in now.queues:
        if queue.dead:
            yield (
                queue.kind,
                f"{queue.kind}: {queue.dead} jobs failed after their last try and wait for a person to replay them",
            )


def _leases(now: Figures) -> Broken:
    for queue in now.queues:
        if queue.expired_s > LEASE_S:
            words = f"{queue.kind}: {queue.expired} leases are over for up to {_minutes(queue.expired_s)}"
            yield queue.kind, f"{words} and nobody gave them back: does the relay run?"


def _sealing(now: Figures) -> Broken:
    if now.unsealed_s > SEALING_S:
        words = f"{now.unsealed} audit entries have no place in the chain, the oldest for {_minutes(now.unsealed_s)}"
        yield "", f"{words}: does the relay run, or is a transaction open for so long?"


def _chain(now: Figures) -> Broken:
    if now.chain_faults:
        yield "", f"the audit's last verification found {now.chain_faults} faults: `tentalis audit verify` names them"


def _deliveries(now: Figures) -> Broken:
    if now.delivery_s > DELIVERY_S:
        yield "", f"{now.deliveries} messages to webhooks are due, the oldest for {_minutes(now.delivery_s)}"


def _untaken(now: Figures) -> Broken:
    if now.untaken_s > UNTAKEN_S:
        words = f"no training machine takes up {now.untaken} trainings, the oldest for {_minutes(now.untaken_s)}"
        yield "", f"{words}: does one run, and does it reach Redis? The page of a run says how one is started"


def _disks(now: Figures) -> Broken:
    for disk in now.disks:
        if disk.free_bytes < min(DISK_SHARE * disk.size_bytes, DISK_BYTES):
            free = f"{disk.free_bytes / 2**20:,.0f} MiB of {disk.size_bytes / 2**20:,.0f}"
            yield disk.place, f"the disk of {disk.place} has {free} free"


def _connections(now: Figures) -> Broken:
    if now.connections > CONNECTIONS_SHARE * now.most_connections:
        yield "", f"{now.connections} of {now.most_connections} database connections are in use"


def _spool(now: Figures) -> Broken:
    if now.spool_behind_bytes > SPOOL_BYTES:
        yield "", f"the gateway's writer is {now.spool_behind_bytes / 2**20:,.0f} MiB behind"


def _rejected(now: Figures) -> Broken:
    if now.spool_rejected_bytes:
        words = f"exchanges that could not be stored ({now.spool_rejected_bytes:,} bytes) lie in the spool's file"
        yield "", f"{words} `rejected`: the gateway's log says why"


def _restarts(now: Figures) -> Broken:
    for service in now.services:
        if service.restarts and service.ready_at is not None and time.time() - service.ready_at < RESTARTED_S:
            words = f"{service.name} died or froze and was started again, {service.restarts} times since the start"
            yield service.name, f"{words}: `tentalis logs supervisor` says why"


def _down(now: Figures) -> Broken:
    for service in now.services:
        if service.state not in {"ready", "done"}:
            yield service.name, f"{service.name} is {service.state}"


def _servers(now: Figures) -> Broken:
    for server in now.servers:
        if server.away_s:
            yield server.name, f"{server.name} is away for {_minutes(server.away_s)}: {server.words}"


def _budgets(now: Figures) -> Broken:
    for one in now.budgets:
        if one.used >= BUDGET_SHARE * one.limit:
            words = f"project {one.project} has used {one.used:,.6g} of its {one.limit:,g} {one.words}"
            yield f"{one.project} {one.name}", f"{words}: at the limit its calls of models are refused"


def _backup(now: Figures) -> Broken:
    most_s = settings.TENTALIS["BACKUP_MAX_AGE_HOURS"] * HOUR_S
    if most_s and (now.age_s if now.backup_s is None else now.backup_s) > most_s:
        last = "there is none" if now.backup_s is None else f"the last is {now.backup_s / HOUR_S:.0f} hours old"
        yield "", f"no backup for {most_s / HOUR_S:g} hours, {last}: `tentalis backup`"


def _drill(now: Figures) -> Broken:
    most_s = settings.TENTALIS["DRILL_MAX_AGE_DAYS"] * 24 * HOUR_S
    if most_s and (now.age_s if now.drill_s is None else now.drill_s) > most_s:
        yield "", f"no backup was tried out for {most_s / HOUR_S / 24:g} days: `tentalis drill`"


RULES = (
    Rule("queue.old", 0, _queues),
    Rule("letter.dead", 60, _letters),
    Rule("lease.expired", 0, _leases),
    Rule("audit.behind", 0, _sealing),
    Rule("audit.faulty", 0, _chain),
    Rule("webhook.behind", 0, _deliveries),
    Rule("training.untaken", 0, _untaken),
    Rule("disk.full", 30, _disks),
    Rule("database.connections", 60, _connections),
    Rule("gateway.behind", 60, _spool),
    Rule("gateway.rejected", 0, _rejected),
    Rule("service.restarted", 0, _restarts),
    Rule("service.down", DOWN_S, _down),
    Rule("server.away", AWAY_S, _servers),
    Rule("budget.near", 0, _budgets),
    Rule("backup.old", 0, _backup),
    Rule("drill.old", 0, _drill),
)


def find_troubles(now: Figures, rules: Iterable[Rule] = RULES) -> list[Trouble]:
    return [Trouble(rule, subject, words) for rule in rules for subject, words in rule.find(now)]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes"
