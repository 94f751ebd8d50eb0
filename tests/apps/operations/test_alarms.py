"""Each rule has a case that breaks it; alarms open after their patience and close by themselves."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from smtplib import SMTPDataError
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from apps.audit.chain import seal_entries
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.gateway.metrics import Metrics
from apps.inference.allowances import BudgetUse
from apps.operations.figures import Disk, Figures, Queue, ServerFigure, Supervised, measure, measure_behind
from apps.operations.metrics import describe
from apps.operations.models import MOST_MAIL_TRIES, Alarm
from apps.operations.rules import RULES, Trouble, find_troubles
from apps.operations.services import CALM_S, OPEN_COUNT, Watch
from apps.operations.telling import MOST_AT_ONCE, tell_all
from apps.outbox.models import Segment
from tentalis.core.alarms import Rule
from tests.factories import make_project, make_user

FINE = Figures(
    queues=(Queue("work", open=9, held=4, expired=0, expired_s=0, oldest_s=20, dead=0),),
    unsealed=3,
    unsealed_s=2,
    age_s=3600,
    connections=20,
    most_connections=100,
    disks=(Disk("home", 40 * 2**30, 100 * 2**30),),
    services=(Supervised("web", "ready", 0, 1.0),),
)
QUEUE = FINE.queues[0]
DAY_S = 24 * 3600.0
JUST_NOW = timezone.now().timestamp() + DAY_S
"""Whenever the test runs: this line runs long before it."""
BROKEN: dict[str, Figures] = {
    "queue.old": replace(FINE, queues=(replace(QUEUE, oldest_s=301),)),
    "letter.dead": replace(FINE, queues=(replace(QUEUE, dead=1),)),
    "lease.expired": replace(FINE, queues=(replace(QUEUE, expired=1, expired_s=121),)),
    "audit.behind": replace(FINE, unsealed_s=121),
    "audit.faulty": replace(FINE, chain_faults=1),
    "webhook.behind": replace(FINE, deliveries=1, delivery_s=901),
    "training.untaken": replace(FINE, untaken=1, untaken_s=601),
    "disk.full": replace(FINE, disks=(Disk("home", 2**20, 100 * 2**30),)),
    "database.connections": replace(FINE, connections=91),
    "gateway.behind": replace(FINE, spool_behind_bytes=33 * 2**20),
    "gateway.rejected": replace(FINE, spool_rejected_bytes=1),
    "service.restarted": replace(FINE, services=(Supervised("web", "ready", 1, JUST_NOW),)),
    "service.down": replace(FINE, services=(Supervised("web", "backing off", 0, None),)),
    "server.away": replace(FINE, servers=(ServerFigure("box", 61.0, "it cannot be reached"),)),
    "budget.near": replace(FINE, budgets=(BudgetUse("shop", "tokens_per_day", "tokens a day", 80.0, 100.0),)),
    "backup.old": replace(FINE, backup_s=3 * DAY_S),
    "drill.old": replace(FINE, drill_s=36 * DAY_S),
}


def test_nothing_is_wrong_where_nothing_is() -> None:
    assert find_troubles(FINE) == []
    assert {rule.name for rule in RULES} == set(BROKEN)


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_each_rule_is_broken_by_its_case_alone(name: str) -> None:
    (trouble,) = find_troubles(BROKEN[name])
    assert trouble.rule.name == name
    assert len(trouble.words) > 15


def test_an_installation_without_any_backup_is_told_when_it_is_old_enough() -> None:
    assert [trouble.rule.name for trouble in find_troubles(replace(FINE, age_s=3 * DAY_S))] == ["backup.old"]


def patient(patience_s: float) -> Trouble:
    return Trouble(Rule("queue.old", patience_s, lambda now: iter(())), "work", "work waits")


@pytest.mark.django_db
def test_an_alarm_opens_after_its_patience_once_and_closes_when_it_is_over() -> None:
    watch = Watch()
    for now_s in (0.0, 59.0):
        watch.look([patient(60)], now_s=now_s)
    assert not Alarm.objects.exists()
    watch.look([], now_s=60)  # it was over for a moment: patience begins anew
    for now_s in (61.0, 121.0, 122.0, 300.0):
        watch.look([patient(60)], now_s=now_s)
    alarm = Alarm.objects.get()
    assert (alarm.state, alarm.rule, alarm.subject, alarm.words) == ("open", "queue.old", "work", "work waits")
    for now_s in (301, 301 + CALM_S - 1):
        watch.look([], now_s=now_s)
        assert Alarm.objects.get().state == "open"
    watch.look([], now_s=301 + CALM_S)
    alarm.refresh_from_db()
    assert alarm.state == "closed"
    assert alarm.closed_at is not None
    kinds = AuditEntry.objects.filter(subject_type="alarm").order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["alarm.opened", "alarm.closed"]


@pytest.mark.django_db
def test_what_comes_and_goes_is_one_alarm() -> None:
    watch = Watch()
    for now_s in range(0, 3600, 15):
        watch.look([patient(0)] if now_s % 60 == 0 else [], now_s=now_s)
    assert [alarm.state for alarm in Alarm.objects.all()] == ["open"]
    assert AuditEntry.objects.filter(subject_type="alarm").count() == 1


@pytest.mark.django_db
def test_what_an_alarm_cannot_hold_of_a_monitors_words_keeps_no_other_from_opening() -> None:
    endless = Trouble(Rule("plugged", 0, lambda now: iter(())), "s\x00\n" + 200 * "s", "w\x00" + 600 * "w")
    watch = Watch()
    for now_s in (0.0, 1.0):
        watch.look([endless, patient(0)], now_s=now_s)
    held = {alarm.rule: (alarm.subject, alarm.words) for alarm in Alarm.objects.all()}
    assert held == {"plugged": ("s\ufffd " + 97 * "s", "w\ufffd" + 498 * "w"), "queue.old": ("work", "work waits")}
    assert Alarm.objects.count() == 2


def is_over(watch: Watch) -> None:
    """Nothing is wrong, for as long as it takes to be believed."""
    for now_s in (1000, 1000 + CALM_S):
        watch.look([], now_s=now_s)


@pytest.mark.django_db
def test_a_watch_that_starts_anew_opens_no_second_alarm_and_closes_the_first() -> None:
    Watch().look([patient(0)], now_s=0)
    Watch().look([patient(0)], now_s=0)
    assert Alarm.objects.count() == 1
    is_over(Watch())
    assert Alarm.objects.get().state == "closed"


@pytest.mark.django_db
def test_people_are_told_of_each_alarm_and_its_end_once(settings: Any) -> None:
    Watch().look([patient(0)], now_s=0)
    assert tell_all() == 0  # nobody is named
    settings.TENTALIS = settings.TENTALIS | {"ALARM_EMAILS": ["ops@example.org"]}
    assert (tell_all(), tell_all()) == (1, 0)
    is_over(Watch())
    assert (tell_all(), tell_all()) == (1, 0)
    assert [message.subject for message in mail.outbox] == [
        "[Tentalis] queue.old work",
        "[Tentalis] over: queue.old work",
    ]
    assert mail.outbox[0].to == ["ops@example.org"]
    assert "work waits" in mail.outbox[0].body


class Refusing(EmailBackend):
    """A mail server that takes no mail of one alarm."""

    def send_messages(self, messages: Any) -> int:
        if any("plugged" in message.subject for message in messages):
            raise SMTPDataError(554, b"this looks like spam")
        return super().send_messages(messages)


@pytest.mark.django_db
def test_a_mail_that_is_refused_keeps_no_other_from_being_sent(settings: Any) -> None:
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    settings.TENTALIS = settings.TENTALIS | {"ALARM_EMAILS": ["ops@example.org"]}
    for rule, subject in (("plugged", "a"), ("older", "of two\nlines"), ("queue.old", "work")):
        Alarm.objects.create(rule=rule, subject=subject, words="it waits")
    assert (tell_all(), tell_all()) == (1, 0)
    assert [message.subject for message in mail.outbox] == ["[Tentalis] queue.old work"]
    refused = Alarm.objects.filter(rule="plugged")
    assert refused.values_list("mail_tries", "mail_fault").get() == (1, "554 this looks like spam"), "put off"


@pytest.mark.django_db
def test_mails_that_are_refused_for_good_fill_no_round_and_are_given_up_with_the_reason_shown(
    settings: Any, client: Client
) -> None:
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    settings.TENTALIS = settings.TENTALIS | {"ALARM_EMAILS": ["ops@example.org"]}
    Alarm.objects.bulk_create(
        Alarm(rule="plugged", subject=str(number), words="it waits") for number in range(MOST_AT_ONCE)
    )
    assert tell_all() == 0
    Alarm.objects.create(rule="queue.old", subject="work", words="it waits")
    Alarm.objects.update(mail_after=None)  # however long it is since
    assert tell_all() == 1
    client.force_login(make_user("olga", is_superuser=True, is_staff=True))
    pages = reverse("admin:operations_alarm_changelist"), reverse("console:health", args=[make_project().slug])
    for _ in range(MOST_MAIL_TRIES):
        Alarm.objects.update(mail_after=None)
        tell_all()
    refused = Alarm.objects.filter(rule="plugged")
    assert set(refused.values_list("mail_tries", flat=True)) == {MOST_MAIL_TRIES}, "nobody asks any more"
    assert all(alarm.is_untellable for alarm in refused)
    for page in pages:
        assert "554 this looks like spam" in client.get(page).content.decode()
    is_over(Watch())
    assert set(refused.values_list("mail_tries", "mail_after")) == {(0, None)}, "that it is over is another mail"


@pytest.fixture
def nothing_known() -> Iterator[None]:
    cache.delete(OPEN_COUNT)
    yield
    cache.delete(OPEN_COUNT)


@pytest.mark.django_db
@pytest.mark.usefixtures("nothing_known")
def test_admins_see_that_an_alarm_is_open_and_others_do_not(client: Client) -> None:
    Watch().look([patient(0)], now_s=0)
    for name, is_admin in (("olga", True), ("bob", False)):
        client.force_login(make_user(name, is_superuser=is_admin, is_staff=is_admin))
        page = client.get("/preferences/").content.decode()
        assert ("One alarm is open" in page) is is_admin
    client.force_login(make_user("ann", is_superuser=True, is_staff=True))
    assert "work waits" in client.get("/admin/operations/alarm/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_the_figures_are_those_of_the_database() -> None:
    Segment.objects.create(kind="task", subject_id=1, links=["tasks.work"], queue="workers")
    Segment.objects.create(kind="task", subject_id=2, links=["tasks.work"], queue="workers", state="dead")
    record("project.changed", by="test")
    record("backup.made", by="test")
    now = measure()
    (queue,) = now.queues
    assert (queue.kind, queue.open, queue.held, queue.expired, queue.dead) == ("task", 1, 0, 0, 1)
    assert now.unsealed == 2
    assert now.backup_s is not None
    assert now.drill_s is None
    assert 0 < now.connections < now.most_connections
    assert {disk.place for disk in now.disks} == {"home", "artifacts", "spool"}
    seal_entries()
    assert measure().unsealed == 0


def test_what_the_gateways_writer_is_behind_is_counted_from_its_place(tmp_path: Path) -> None:
    for name, size in (("a/000000000000.spool", 10), ("a/000000000001.spool", 7), ("b/000000000000.spool", 5)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / ".stored-c").mkdir()
    (tmp_path / ".stored-c" / "000000000000.spool").write_bytes(b"x")
    assert measure_behind(tmp_path, {"a": (1, 3)}) == 4 + 5


@pytest.mark.django_db
def test_prometheus_is_told_the_same(client: Client) -> None:
    Segment.objects.create(kind="task", subject_id=2, links=["tasks.work"], queue="workers", state="dead")
    client.force_login(make_user("olga", is_superuser=True))
    text = client.get("/metrics").content.decode()
    assert "tentalis_up 1.0" in text
    assert 'tentalis_dead_letters{kind="task"} 1.0' in text
    for name in ("audit_unsealed", "disk_free_bytes", "database_connections", "spool_behind_bytes", "leases_expired"):
        assert f"# TYPE tentalis_{name} gauge" in text
    assert connection.vendor == "postgresql"


@pytest.mark.django_db
def test_prometheus_own_parser_reads_both_and_their_number_does_not_grow_with_use(client: Client) -> None:
    client.force_login(make_user("olga", is_superuser=True))

    def count(text: str) -> int:
        families = list(text_string_to_metric_families(text))
        assert len({one.name for one in families}) == len(families)
        return sum(len(one.samples) for one in families)

    first = count(client.get("/metrics").content.decode())
    rows = [Segment(kind="task", subject_id=n, links=["tasks.work"], queue="workers") for n in range(2_000)]
    Segment.objects.bulk_create(rows)
    grown = count(client.get("/metrics").content.decode()) - first
    assert grown <= 10, "a kind of queue has so many series, however much lies in it"
    edge = Metrics()
    for api in ("chat", "responses"):
        edge.answers[api, 200] += 50_000
    edge.refusals["overloaded"] += 1
    assert count(edge.expose().decode()) < 100


def test_the_dashboard_for_grafana_names_figures_that_there_are() -> None:
    board = json.loads((Path(__file__).parents[3] / "docker" / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for expression in asked for name in re.findall(r"\btentalis_[a-z_]+", expression)}
    ours = {f"tentalis_{name}" for name, *_ in describe(replace(FINE, backup_s=1, drill_s=1))}
    edges = {sample.name for family in Metrics().collect() for sample in family.samples}
    edges |= {f"{family.name}_total" for family in Metrics().collect()}
    assert named - ours - edges == set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) >= 12


def test_the_rules_for_prometheus_name_figures_that_there_are() -> None:
    text = (Path(__file__).parents[3] / "docker" / "alerts.yaml").read_text()
    named = set(re.findall(r"\btentalis_([a-z_]+)", text)) - {"up"}
    whole = replace(FINE, backup_s=1, drill_s=1)
    assert named <= {name for name, *_ in describe(whole)}
    assert text.count("alert:") == len(RULES) + 1


@pytest.mark.django_db
def test_readiness_looks_through_the_migrations_until_none_is_missing_and_at_the_database_each_time(
    client: Client, django_assert_num_queries: Any
) -> None:
    assert client.get("/readyz").status_code == 200
    with django_assert_num_queries(1):
        assert client.get("/readyz").json()["reasons"] == []
