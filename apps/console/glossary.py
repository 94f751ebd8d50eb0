"""The console's terms, a sentence each, and the pages they are seen on. `docs/glossary.md` is written from it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from apps.console.glossary_files import IN_CODE, PLACES

Words = str | Promise


class Term(NamedTuple):
    """What a word means here; `pages` are the names of those it is seen on."""

    name: str
    meaning: Words
    pages: frozenset[str]

    @property
    def anchor(self) -> str:
        return slugify(self.name)


TASKS = ("task-list", "task", "task-new", "task-import", "project")
REVIEWING = ("review-list", "review", "review-skip", "bulk-new", "bulk", "feedback-appeal")
MEASURING = ("quality", "rater", "manager-run")
RUNS = ("run-list", "run", "run-retry", "returns")
ADAPTERS = ("adapter-list", "adapter", "adapter-promote", "roll-back", "adapter-moved")
TRIALS = ("adapter-canary", "canary-stop", "adapter-shadow", "shadow-stop")
TRACE = ("feedback", "my-feedback", "adapter-people", "task-versions", "attempt-compare")
WORLDS = ("environment-list", "environment")
CALLS = ("session-list", "session", "exchange", "forget")

TITLES: Mapping[str, Words] = {
    "work": _("Work and reviews"),
    "training": _("Training"),
    "adapters": _("Adapters and the gate"),
    "operations": _("Operations"),
}


def _term(name: str, meaning: Words, *pages: Iterable[str] | str) -> Term:
    return Term(name, meaning, frozenset(one for page in pages for one in ([page] if isinstance(page, str) else page)))


GLOSSARY: Mapping[str, Sequence[Term]] = {
    "work": (
        _term("Task", _("One piece of work given to a worker."), TASKS, "worker", TRACE),
        _term(
            "Attempt",
            _("One try at a task by one worker with one adapter version; the attempts at a task are compared."),
            *(TASKS, REVIEWING, TRACE, RUNS),
        ),
        _term("Step", _("One reasoning step or tool call of an attempt."), "task", REVIEWING, "feedback"),
        _term(
            "Turn",
            _("In a world with tools: one answer of the model, what it wanted done, and what the world said to that."),
            *("task", REVIEWING),
        ),
        _term(
            "Environment",
            _("Where a task is: a conversation, a shell, a repository, a browser, a company's tools."),
            *(TASKS, WORLDS, "taskset", "worker"),
        ),
        _term(
            "Certificate",
            _("What the examination of an environment found; nothing trains in one that failed or changed since."),
            WORLDS,
        ),
        _term("Worker", _("An agent that does tasks."), TASKS, "worker-list", "worker", "worker-new", "connect"),
        _term(
            "Ensemble",
            _("Workers that the gateway asks together: one of their answers is given."),
            *("worker-list", "ensemble-new", "ensemble-change"),
        ),
        _term("Manager", _("A person or an AI that reviews attempts."), REVIEWING, MEASURING),
        _term(
            "Score",
            _("A number from 0 to 1 for a step or an attempt; “not scored” where nothing could judge it."),
            *(TASKS, REVIEWING, TRACE),
        ),
        _term(
            "Verified",
            _("The outcome was checked against the right answer or by the world itself; it counts before any opinion."),
            *("task", "review", MEASURING, TRACE),
        ),
        _term(
            "Scorer", _("A program or model that gives scores to steps and attempts."), "task", "quality", "settings"
        ),
        _term(
            "Feedback",
            _("What a manager says about an attempt: scores, a comment, a best or corrected answer."),
            TRACE,
            "task",
        ),
        _term(
            "Hint",
            _("What a comment teaches: it is added to the prompt of the teacher in training."),
            REVIEWING,
            TRACE,
            "settings",
        ),
        _term(
            "Rubric",
            _("The project's description of good work, shown to every reviewer and judge."),
            "review",
            "settings",
        ),
        _term(
            "Annotation queue", _("The list of tasks that wait for a person's review; here: Reviews."), "review-list"
        ),
        _term(
            "Control item (gold)",
            _("A review whose right judgement is known; it measures the reviewer and is never learned from."),
            *(MEASURING, "settings"),
        ),
        _term(
            "Agreement",
            _("How often two reviewers decide the same, beyond chance: Krippendorff's alpha or Cohen's kappa."),
            "quality",
        ),
        _term(
            "Favouring",
            _("Reviewers judge one worker apart from the rest, beyond chance: a reason to look, not proof."),
            "quality",
        ),
        _term(
            "Reviewer weight",
            _("How much a reviewer's judgement counts, from 0 to 1, as measured where the truth is known."),
            *(MEASURING, "review", "feedback"),
        ),
        _term(
            "Blind review",
            _("A review made before its reviewer sees who answered, the scores and other opinions."),
            "review",
            "settings",
        ),
        _term(
            "Approval",
            _("A decision, by a person or another agent, about an action that an agent asked for first."),
            "proposal-list",
            "proposal",
            "proposal-decided",
            "proposal-rules",
        ),
    ),
    "training": (
        _term(
            "Rollout",
            _("The exact tokens of an attempt with their log-probs, reward and hint: what training reads."),
            RUNS,
            "task",
            "blockers",
            "exports",
        ),
        _term(
            "Log-prob",
            _("The natural logarithm of the probability the model gave a token, in nats."),
            "exchange",
            "run",
            "settings",
            "provider",
        ),
        _term(
            "Reward", _("The number from 0 to 1 that an attempt is trained with."), RUNS, TRACE, "project", "exchange"
        ),
        _term(
            "Advantage",
            _("How much better an attempt is than the others at its task; above 0 it becomes likelier."),
            *("feedback", "run", "settings"),
        ),
        _term(
            "GRPO",
            _("Group relative policy optimisation: attempts at one task are compared with each other."),
            "run",
            "settings",
        ),
        _term(
            "Batch",
            _("Judged tasks that one run trains on; each task is in one batch only."),
            RUNS,
            "project",
            "blockers",
            "worker",
        ),
        _term("Run", _("One training of one batch into one adapter."), RUNS, "blockers"),
        _term(
            "Recipe",
            _("All settings of a training: algorithm, learning rate, clipping, LoRA and so on."),
            "run",
            "run-retry",
            "train",
            "settings",
        ),
        _term(
            "Clip",
            _("The limit of a token's probability ratio between new and old policy in one update."),
            "run",
            "settings",
        ),
        _term(
            "KL",
            _("Kullback-Leibler divergence: how far the trained model is from the base model, in nats a token."),
            "run",
            "settings",
        ),
        _term(
            "Entropy",
            _("How undecided the model is about its next token; near 0 it stops exploring."),
            "run",
            "settings",
        ),
        _term(
            "Staleness",
            _("How many adapter versions lie between the one that answered and the one being trained."),
            "run",
            "settings",
        ),
        _term(
            "Distillation", _("Training towards the log-probs of a teacher that has read the hint."), "run", "settings"
        ),
        _term(
            "Preference pair",
            _("A chosen and a rejected attempt at one prompt, each of one or more token sequences, for DPO and IPO."),
            "feedback",
            "run",
            "exports",
        ),
        _term(
            "Gain",
            _("The difference of held-out accuracy to the adapter in service before, in percentage points."),
            "returns",
            "run-list",
            "run",
        ),
    ),
    "adapters": (
        _term(
            "Base model", _("The frozen model that adapters are trained for."), ADAPTERS, "run", "worker", "worker-new"
        ),
        _term(
            "Adapter",
            _("LoRA weights that one run produced: small, immutable, named worker@vN-digest."),
            ADAPTERS,
            TRIALS,
            "run",
            "worker",
            "project",
        ),
        _term(
            "LoRA",
            _("Low-rank adaptation: a few added weights are trained, the base model is not."),
            "adapter",
            "run",
            "settings",
        ),
        _term(
            "Held-out panel",
            _("Tasks that are never trained on; every adapter is measured on them."),
            ADAPTERS,
            "taskset-list",
            "project",
            "run",
            "settings",
        ),
        _term(
            "Gate",
            _("The measurement that decides whether an adapter may serve, and whether it is proved better."),
            ADAPTERS,
            RUNS,
            "settings",
            "project",
        ),
        _term(
            "Candidate",
            _("An adapter that training made and the gate has not found safe to serve yet."),
            ADAPTERS,
            TRIALS,
        ),
        _term(
            "Safe to serve",
            _("The gate's first question: the adapter is not worse than the one in service by more than the margin."),
            ADAPTERS,
        ),
        _term(
            "Proved better",
            _("The gate's second question: the adapter is significantly better than the anchor."),
            ADAPTERS,
        ),
        _term(
            "Anchor",
            _("The last version that was proved better; later versions are compared with it."),
            ADAPTERS,
            "settings",
        ),
        _term(
            "Confidence interval",
            _("A range of plausible values; where that of a difference contains 0, the difference is not significant."),
            ADAPTERS,
            TRIALS,
            RUNS,
            MEASURING,
        ),
        _term(
            "Canary",
            _("An adapter does a share of the new tasks, compared with the one in service and stopped if worse."),
            ADAPTERS,
            TRIALS,
            "worker",
            "settings",
        ),
        _term(
            "Shadow test",
            _("An adapter repeats a share of the tasks; its answers are scored but never shown or learned from."),
            ADAPTERS,
            TRIALS,
        ),
        _term(
            "Adapter scale check",
            _("The adapter is measured with its weights scaled down; better when weaker means over-scaled."),
            "adapter",
            "settings",
        ),
        _term(
            "Under suspicion",
            _("Quarantined: the adapter cannot serve until a person releases it with a reason."),
            ADAPTERS,
            "adapter-suspect",
            "adapter-release",
        ),
        _term("Deployment", _("The adapter that serves a worker now, and the one before it."), ADAPTERS, "worker"),
    ),
    "operations": (
        _term(
            "Session", _("A conversation of an outside agent with a model, recorded call by call."), CALLS, "connect"
        ),
        _term("Call (exchange)", _("One request to a model and its answer."), CALLS, "worker"),
        _term(
            "Model server",
            _("A service that answers for a model over the OpenAI or Anthropic protocol."),
            "provider-list",
            "provider",
            "provider-new",
            "worker",
            "connect",
            "health",
        ),
        _term(
            "Gateway",
            _("The address that agents call instead of the model server; it records and meters the calls."),
            CALLS,
            "tokens",
            "token-limits",
            "project-limits",
            "connect",
        ),
        _term(
            "Training machine",
            _("The computer that trains: it takes runs from a queue and returns adapters."),
            RUNS,
            "health",
            "settings",
        ),
        _term(
            "Job",
            _("One step of the platform's work on a task, run or adapter, done by a queue process."),
            "health",
            "dead-letters",
            "project",
        ),
        _term(
            "Outbox",
            _("The table of work to be done, written with the change that causes it, so that nothing is lost."),
            "health",
            "dead-letters",
        ),
        _term(
            "Lease",
            _("The time for which a process holds a job; when it runs out another process takes it."),
            "health",
            "dead-letters",
            "worker",
        ),
        _term(
            "Failed work (dead letter)",
            _("A job that failed after its last try and waits for a person to replay it."),
            "dead-letters",
            "health",
            "blockers",
        ),
        _term(
            "Audit",
            _("The append-only record of what happened and who did it, chained by hashes."),
            "audit",
            "settings",
            "exports",
        ),
        _term(
            "Webhook",
            _("An address of yours that receives the project's events."),
            "webhooks",
            "webhook",
            "webhook-secret",
        ),
        _term("Scope", _("One thing that a token may do."), "tokens"),
        _term(
            "Manifest",
            _("The file beside an adapter or export that says what is in it, with hashes."),
            "adapter",
            "exports",
        ),
    ),
}


def find_terms(page: str) -> list[Term]:
    """The terms that are seen on a page, by its name; [] for none."""
    return [term for terms in GLOSSARY.values() for term in terms if page in term.pages]


def write_glossary() -> str:
    """docs/glossary.md, whole."""
    parts = [
        "# Glossary",
        "",
        "What the console's words mean, what the field calls it, and the file to open first.",
        "",
    ]
    parts += ["Written from `apps/console/glossary.py` and `apps/console/glossary_files.py`.", ""]
    for name, terms in GLOSSARY.items():
        parts += [f"## {TITLES[name]}", "", "| term | meaning | the field's word | file |", "|---|---|---|---|"]
        for term in terms:
            place = PLACES[term.name]
            parts.append(f"| {term.name} | {term.meaning} | {place.field} | `{place.file}` |")
        parts.append("")
    parts += ["## Words of the code", "", "| word | the field's word | file |", "|---|---|---|"]
    parts += [f"| {word} | {place.field} | `{place.file}` |" for word, place in IN_CODE.items()]
    return "\n".join([*parts, ""])
