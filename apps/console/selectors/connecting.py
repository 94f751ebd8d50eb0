"""What of a project is connected: who answers, which calls and tasks have arrived, what a model server is good for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.models import Project
from apps.inference.grants import usable
from apps.inference.models import Exchange, Provider
from apps.inference.probes import Probe
from apps.inference.provider_kinds import find_kind
from apps.tasks.models import Task
from apps.workers.bases import say_untrained
from apps.workers.kinds import find_kind as find_worker_kind
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model

MOST = 50


@dataclass(frozen=True)
class TestNote:
    """One sentence of a test. `is_good` None: neither good nor bad. `page` and `args`: where to mend it."""

    words: str
    is_good: bool | None = None
    page: str = ""
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answerer:
    """A worker that agents can ask for by name. `untrained` says why nothing of it trains; "" where it can."""

    worker: Worker
    base_model: str
    untrained: str


@dataclass(frozen=True)
class Server:
    """A model server that the project may ask. `may_test`: it is the project's own."""

    provider: Provider
    label: str
    tells_tokens: bool
    workers: Sequence[Worker]
    may_test: bool


@dataclass(frozen=True)
class Connected:
    """Everything the page *Connect* shows."""

    workers: Sequence[Worker]
    answerers: Sequence[Answerer]
    servers: Sequence[Server]
    calls: Sequence[TestNote]
    tasks: Sequence[TestNote]

    @property
    def outside(self) -> list[Worker]:
        """Workers whose agent takes tasks and hands in results."""
        return [worker for worker in self.workers if worker.kind == Worker.Kind.OUTSIDE]


def find_connected(project: Project, *, is_admin: bool) -> Connected:
    """Five short reads."""
    rows = Worker.objects.filter(project=project, is_active=True).select_related("provider", "learns_with__provider")
    workers = list(rows.order_by("name")[:MOST])
    answerers = [
        Answerer(worker, base, say_untrained(worker))
        for worker in workers
        if not find_worker_kind(worker.kind).through_gateway and (base := find_base_model(worker))
    ]
    providers = Provider.objects.filter(usable([project]), is_active=True).order_by("name")[:MOST]
    servers = [
        Server(
            provider=provider,
            label=find_kind(provider.kind).label,
            tells_tokens=find_kind(provider.kind).tells_tokens,
            workers=[worker for worker in workers if worker.provider_id == provider.pk],
            may_test=provider.project_id is not None or is_admin,
        )
        for provider in providers
    ]
    return Connected(workers, answerers, servers, say_calls(project), say_tasks(project))


def say_calls(project: Project) -> list[TestNote]:
    """What the last call through the gateway showed."""
    found = Exchange.objects.filter(project=project, session__isnull=False).exclude(token="").order_by("-id")
    call = found.defer("messages", "request").first()
    if call is None:
        return [TestNote(_("No call has arrived yet."))]
    said = {"who": call.agent or _("somebody"), "model": call.worker_name or call.model}
    findings = [TestNote(_("A call arrived: %(who)s asked for %(model)s.") % said, True, "exchange", (call.pk,))]
    if call.has_failed:
        words = _("It failed with status %(status)s: %(error)s") % {"status": call.status, "error": call.error[:300]}
        return [*findings, TestNote(words, False)]
    if call.error:
        words = _("It was recorded and can be judged, and does not train: %(why)s.") % {"why": call.error[:300]}
        findings.append(TestNote(words, False))
    elif call.token_ids and call.prompt_token_ids:
        findings.append(TestNote(_("The model server told the tokens of its answer: it can be learned from."), True))
    else:
        words = _("The model server told no token ids: calls are recorded and can be judged, and nothing trains.")
        findings.append(TestNote(words, False))
    if not call.worker_name:
        words = _("It named a model of a server, not a worker: only what is asked of a worker can be learned from.")
        findings.append(TestNote(words, False))
    return findings


def say_tasks(project: Project) -> list[TestNote]:
    """Whether a task has arrived, from whom, and how far it came."""
    task = Task.objects.filter(project=project).select_related("submitted_by", "worker").order_by("-id").first()
    if task is None:
        return [TestNote(_("No task has arrived yet."))]
    said = {"id": task.pk, "who": task.submitted_by.handle, "worker": task.worker.name}
    words = _("Task %(id)s arrived from %(who)s, for %(worker)s.") % said
    findings = [TestNote(words, True, "task", (task.pk,))]
    if task.state == Task.State.QUEUED and task.worker.kind == Worker.Kind.OUTSIDE:
        findings.append(TestNote(_("It waits for your agent, which hands in its result.")))
    else:
        is_good = False if task.state == Task.State.FAILED else None
        findings.append(TestNote(_("It is now: %(state)s.") % {"state": task.get_state_display()}, is_good))
    return findings


def say_probe(probe: Probe) -> list[TestNote]:
    """What a test of a model server means for a worker on it."""
    if not probe.ok:
        return [TestNote(probe.words, False)]
    findings = [TestNote(_("It answers: %(words)s.") % {"words": probe.words}, True)]
    if probe.models:
        findings.append(TestNote(_("It serves %(models)s.") % {"models": ", ".join(probe.models[:8])}))
    if probe.can_train:
        findings.append(TestNote(_("It tells token ids and log-probs: what it says can be trained on."), True))
    else:
        words = _("It tells no token ids or no log-probs: workers on it can be reviewed, and nothing of them trains.")
        findings.append(TestNote(words, False))
    if probe.loads_adapters:
        findings.append(TestNote(_("It loads adapters while it runs: what is trained can serve there."), True))
    elif probe.loads_adapters is False:
        findings.append(TestNote(_("It loads no adapters: what is trained cannot serve there."), False))
    return findings
