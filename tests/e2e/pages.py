"""Every page of the console, by name."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import ApiToken, Invitation, Project, Role, User
from apps.adapters.models import Adapter, Deployment, Shadow
from apps.calibration.models import Rater
from apps.checks.models import NamedCheck
from apps.console.forms_settings import make_sections
from apps.evals.models import Evaluation, Experiment
from apps.feedback.claims import claim
from apps.feedback.models import BulkJudgement, Feedback, Review
from apps.feedback.side_by_side import open_pair
from apps.gate.models import AnswerPair
from apps.operations.models import Alarm
from apps.tasks.models import Task
from apps.workers.models import Ensemble, Worker
from apps.worlds.certificates import certify
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.registry import get_world
from tentalis.core.worlds import PanelItem
from tests.e2e.benchmark_scenery import ask_scenarios
from tests.e2e.learning_scenery import fall_under_suspicion, get_into_trouble
from tests.e2e.quality_scenery import train_a_manager
from tests.e2e.scenery import Scene, add_task
from tests.factories import make_measured, make_worker

NOTES = [
    "2 rollouts were left out: their answers came without token ids",
    "1 hint was cut: it is longer than 600 tokens",
]


def find_pages(scene: Scene) -> dict[str, str]:
    """Name of a page -> its path in this scene, as alice sees it. Claims the scene's review for her."""
    claim(review=scene.review, by=scene.alice)

    def path(name: str, *args: object) -> str:
        return reverse(f"console:{name}", args=(scene.project.slug, *args))

    return {
        "dashboard": path("project"),
        "search": path("search") + "?q=lamp",
        "tasks": path("task-list"),
        "task": path("task", scene.reviewed.pk),
        "failed_task": path("task", scene.failed.pk),
        "task_new": path("task-new"),
        "task_import": path("task-import"),
        "task_from_sessions": path("task-from-sessions"),
        "connect": path("connect"),
        "who_judges": path("who-judges"),
        "feedback": path("task-feedback", scene.reviewed.pk),
        "reviews": path("review-list"),
        "review": path("review", scene.review.pk),
        "review_skip": path("review-skip", scene.review.pk),
        "proposals": path("proposal-list"),
        "proposal": path("proposal", scene.proposal.pk),
        "proposals_decided": path("proposal-decided"),
        "proposal_rules": path("proposal-rules"),
        "quality": path("quality"),
        "manager_run": path("manager-run", scene.project.manager_runs.latest("pk").pk),
        "rater": path("rater", Rater.objects.get(project=scene.project, handle="user:bob").pk),
        "runs": path("run-list"),
        "returns": path("returns"),
        "run": path("run", scene.run.pk),
        "failed_run": path("run", scene.failed_run.pk),
        "adapters": path("adapter-list"),
        "adapter": path("adapter", scene.adapter.pk),
        "adapter_people": path("adapter-people", scene.adapter.pk),
        "adapter_moved": path("adapter-moved", scene.adapter.pk),
        "feedback_trace": path("feedback", scene.reviewed.feedback.earliest("pk").pk),
        "my_feedback": path("my-feedback"),
        "task_versions": path("task-versions", scene.reviewed.pk),
        "workers": path("worker-list"),
        "worker": path("worker", scene.worker.name),
        "providers": path("provider-list"),
        "provider": path("provider", scene.project.providers.earliest("pk").pk),
        "sessions": path("session-list"),
        "session": path("session", scene.project.sessions.earliest("pk").pk),
        "exchange": path("exchange", scene.project.exchanges.filter(turn="main").latest("pk").pk),
        "environments": path("environment-list"),
        "environment": path("environment", _examine("desk")),
        "repo_tasks": path("repo-task-list", *_hand_in(scene.alice)),
        "repo_task_add": path("repo-task-add"),
        "tasksets": path("taskset-list"),
        "taskset": path("taskset", scene.project.tasksets.earliest("pk").pk),
        "evaluations": path("evaluation-list"),
        "evaluation": path("evaluation", scene.worker.evaluations.exclude(asked_by="").latest("pk").pk),
        "benchmarks": path("benchmark-list"),
        "catalogue": path("catalogue"),
        "benchmark": path("benchmark", scene.project.benchmarks.earliest("pk").pk),
        "leaderboard": path("leaderboard", scene.project.benchmarks.earliest("pk").pk),
        "courses": path("course-list"),
        "course": path("course", scene.project.courses.earliest("pk").pk),
        "blockers": path("blockers"),
        "glossary": path("glossary"),
        "dead_letters": path("dead-letters"),
        "health": path("health"),
        "audit": path("audit"),
        "exports": path("exports"),
        "members": path("members"),
        **{
            f"settings_{one.section}": f"{path('settings')}?section={one.section}"
            for one in make_sections(scene.project)
        },
        "tokens": path("tokens"),
        "webhooks": path("webhooks"),
        "webhook": path("webhook", scene.project.webhooks.earliest("pk").pk),
    }


def _hand_in(by: User) -> tuple[()]:
    """Tasks of own repositories that stand in every state."""
    dropped = [{"test": "tests/test_rows.py::test_order", "why": "passes 2 times of 3 on the gold patch"}]
    found: dict[str, dict[str, Any]] = {
        "queued": {},
        "running": {"runs": 2},
        "admitted": {"runs": 6, "added_as": "calc-3@3fa9c2e81b07", "report": {"dropped": dropped}},
        "quarantined": {
            "runs": 6,
            "reason": "tests.test_calc.CalcTest.test_add passes on the base, and should fail there: passed",
        },
        "failed": {"reason": "python: wanted 3.99 on this machine, found none"},
    }
    RepoTaskAdmission.objects.bulk_create(
        RepoTaskAdmission(
            name=f"calc-{n}", split="train", task={}, repository="0" * 64, asked_by=by.handle, state=state, **told
        )
        for n, (state, told) in enumerate(found.items(), start=1)
    )
    return ()


def _examine(name: str) -> str:
    """With two certificates, of which one found something, and was allowed all the same."""
    certify(get_world(name), by="command line", tasks=1)
    made = certify(get_world(name), by="user:alice", tasks=1, accepted="A control that is wrong on purpose.")
    made.checks[3] |= {"passed": False, "words": "2 of 3 right ways are not worth 1: 'Ticket 4127': it is worth 0.5"}
    made.passed = False
    made.save()
    return name


def find_manager_pages(scene: Scene) -> dict[str, str]:
    """Pages that take a manager's rights, and pages that are nothing without their query."""

    def path(name: str, *args: object) -> str:
        return reverse(f"console:{name}", args=(scene.project.slug, *args))

    left, right = scene.reviewed.attempts.order_by("index")[:2]
    runs = get_into_trouble(scene.worker)
    suspect = fall_under_suspicion(scene.worker)
    pair, compared = _compare(scene)
    _invite(scene)
    type(scene.failed_run).objects.filter(pk=scene.failed_run.pk).update(notes=NOTES)
    taskset = scene.project.tasksets.earliest("pk")
    asked = scene.worker.evaluations.exclude(asked_by="").order_by("-pk")
    older = scene.worker.runs.exclude(metrics=[]).exclude(pk=scene.run.pk).first()
    return {
        "review_bulk_new": path("bulk-new"),
        "bulk_act": path("bulk-act") + f"?of=tasks&action=cancel&id={scene.in_review.pk}",
        "review_bulk": path("bulk", _judge_many(scene).pk),
        "review_reveal": path("review", _judge(scene).pk),
        "review_offer": path("review", _offer(scene).pk),
        "review_pair": path("review", pair.pk),
        "adapter_compared": path("adapter", compared.pk),
        "review_compare": f"{path('task-compare', scene.reviewed.pk)}?left=0&right=1&what=whole",
        "review_appeal": path("feedback-appeal", scene.reviewed.feedback.earliest("pk").pk),
        "manager_adapter": path("manager-run", train_a_manager(scene.worker, [scene.reviewed.pk]).pk),
        "rater_out": path("rater", Rater.objects.get(project=scene.project, handle="scorer:prm").pk),
        "adapter_promote": path("adapter-promote", scene.candidate.pk),
        "adapter_canary": path("adapter-canary", scene.candidate.pk),
        "adapter_shadow": path("adapter-shadow", scene.candidate.pk),
        "task_cancel": path("task-cancel", scene.in_review.pk),
        "task_keep": path("task-keep", scene.reviewed.pk),
        "taskset_new": path("taskset-new"),
        "checks": path("check-list"),
        "evaluation_new": path("evaluation-new"),
        "evaluation_beside": path("evaluation", asked[0].pk) + f"?beside={asked[1].pk}",
        "benchmark_install": path("benchmark-install") + "?name=desk",
        "benchmark_run": path("benchmark-run", scene.project.benchmarks.earliest("pk").pk),
        "course_new": path("course-new", scene.project.benchmarks.earliest("pk").pk),
        "evaluation_try": path("evaluation-try", asked[0].pk, 0, 0),
        "evaluation_try_keep": path("evaluation-try-keep", asked[0].pk, 0, 0),
        "feedback_keep": path("feedback-keep", scene.reviewed.feedback.earliest("pk").pk),
        "evaluation_items": path("evaluation-items", asked[0].pk, asked[1].pk),
        "experiment_new": path("experiment-new"),
        "experiment": path("experiment", _experiment(scene, asked).pk),
        "experiments": path("experiment-list"),
        **{f"taskset_{name}": path(f"taskset-{name}", taskset.pk) for name in ("add", "split", "freeze")},
        "item_delete": path("item-delete", taskset.pk, taskset.items.earliest("pk").pk),
        "check_delete": path("check-delete", _write_check(scene).pk),
        "run_describe": path("run-describe", scene.run.pk),
        "train": path("train", scene.worker.name),
        "run_cancel": path("run-cancel", runs["waiting"].pk),
        "run_retry": path("run-retry", scene.failed_run.pk),
        "token_revoke": path("token-revoke", _hold_token(scene).pk),
        "adapter_suspect": path("adapter-suspect", scene.candidate.pk),
        "adapter_release": path("adapter-release", scene.candidate.pk),
        **{f"run_{name}": path("run", run.pk) for name, run in runs.items()},
        "adapter_suspected": path("adapter", suspect.pk),
        "roll_back": path("roll-back", scene.worker.name),
        "shadow_stop": path("shadow-stop", _try_unseen(scene).name),
        "canary_stop": path("canary-stop", _try_adapter(scene).name),
        "project_archive": path("project-archive"),
        "project_unarchive": path("project-unarchive"),
        "forget": path("forget"),
        "worker_new": path("worker-new") + "?kind=chat",
        "worker_change": path("worker-change", scene.worker.name),
        "ensemble_new": path("ensemble-new"),
        "ensemble_change": path("ensemble-change", _ask_together(scene).name),
        "ensemble_remove": path("ensemble-remove", _ask_together(scene).name),
        "provider_new": path("provider-new"),
        "provider_change": path("provider-change", scene.project.providers.earliest("pk").pk),
        "token_limits": path("token-limits", ApiToken.objects.get(key_id="e2e").pk),
        "project_limits": path("project-limits"),
        "task_long": path("task", _ask_at_length(scene).pk),
        "attempt_compare": f"{path('attempt-compare')}?left={left.pk}&right={right.pk}",
        "evaluation_alignment": path("evaluation", ask_scenarios(scene.worker, scene.alice).pk),
        "run_compare": f"{path('run', scene.run.pk)}{f'?with={older.pk}' if older else ''}",
    }


def _compare(scene: Scene) -> tuple[Review, Adapter]:
    """A candidate whose answers people compare, and a review of a pair that alice has taken."""
    adapter = Adapter.objects.create(
        project=scene.project,
        worker=scene.worker,
        name=f"{scene.worker.name}@v99-cd45f1aa",
        version=99,
        line_version=99,
        uri="file:///adapters/cd45f1aa",
        sha256="cd45f1aa" * 8,
        manifest={},
    )
    sides = [
        make_measured(scene.worker, model, [0.0] * 3, items="own/chat/1f0c", item_set_hash="1f0c", purpose="fresh")
        for model in (adapter, None)
    ]
    answers = ["We take it back within 30 days; the shipping is ours.", "Returns are possible. Please see our terms."]
    for mine, theirs in zip(*(side.item_tries.order_by("place") for side in sides), strict=True):
        prompt = f"A customer asks whether lamp {mine.place + 7} can be sent back. What do we answer?"
        task = open_pair(scene.worker, "chat", PanelItem(prompt=prompt), answers, people=1, by="gate")
        AnswerPair.objects.create(adapter=adapter, mine=mine, theirs=theirs, task=task)
    review = task.reviews.get()
    return claim(review=review, by=scene.alice), adapter


def _experiment(scene: Scene, asked: QuerySet[Evaluation]) -> Experiment:
    made = Experiment.objects.create(project=scene.project, experiment="Three candidates", asked_by="user:alice")
    for one in asked[1:3]:
        made.scenarios.create(scenario=f"{one.pk}", candidate=one, reference=asked[0])
    return made


def _ask_together(scene: Scene) -> Ensemble:
    members = [scene.worker.name, "trial"]
    return Ensemble.objects.get_or_create(project=scene.project, name="both", defaults={"members": members})[0]


def _ask_at_length(scene: Scene) -> Task:
    """More words than a page shows at once."""
    task = add_task(scene, attempts=1)
    task.prompt = "A lamp that came without its shade is to be sent again. " * 900
    task.save(update_fields=["prompt"])
    return task


def _invite(scene: Scene) -> None:
    """Somebody into this project, and alice into another."""
    other = Project.objects.create(slug="archive", name="Archive")
    for project, name in ((scene.project, "erin"), (other, scene.alice.username)):
        Invitation.objects.create(
            project=project,
            username=name,
            role=Role.REVIEWER,
            code_hash=name,
            invited_by=User.objects.get(username="bob"),
            expires_at=timezone.now() + timedelta(days=6),
        )


def find_admin_pages(scene: Scene) -> dict[str, str]:
    """What an admin of the installation sees alone, and what while something is wrong."""
    words = (
        "task: the oldest of 41 open segments is due for 12 minutes and nobody took it: are the queue processes alive?"
    )
    Alarm.objects.create(rule="queue.old", subject="task", words=words)
    return {
        "people": reverse("console:people"),
        "project_new": reverse("console:project-new"),
        "repo_task_form": reverse("console:repo-task-add", args=(scene.project.slug,)),
        "alarm": reverse("console:project", args=(scene.project.slug,)),
        "alarms": reverse("admin:operations_alarm_changelist"),
    }


def _write_check(scene: Scene) -> NamedCheck:
    """One that nothing uses."""
    spec = {"check": "length", "unit": "words", "max": 40}
    return NamedCheck.objects.create(project=scene.project, name="very-short", about="At most 40 words.", spec=spec)


def _hold_token(scene: Scene) -> ApiToken:
    return ApiToken.objects.create(
        key_id="e2e",
        secret_hash="0",
        name="claw on the desk",
        user=scene.alice,
        project=scene.project,
        scopes=["gateway:use"],
        limits={"requests_per_minute": 60, "usd_per_day": 2.5},
        expires_at=timezone.now() + timedelta(days=30),
    )


def _judge(scene: Scene) -> Review:
    """A second opinion of alice's own."""
    review = Review.objects.create(
        project=scene.project,
        task=scene.reviewed,
        audience="human",
        purpose="second",
        state="closed",
        closed_at=timezone.now(),
    )
    Feedback.objects.create(
        project=scene.project,
        task=scene.reviewed,
        review=review,
        source="human",
        author=scene.alice.handle,
        score=0.6,
        text="The surcharge is named and then forgotten.",
        preferred_attempt=scene.reviewed.attempts.earliest("index"),
    )
    return review


def _offer(scene: Scene) -> Review:
    """One that waits, and that nobody has open."""
    task = add_task(scene, attempts=2)
    return Review.objects.create(project=scene.project, task=task, audience="human", reason="one task in five")


def _judge_many(scene: Scene) -> BulkJudgement:
    return BulkJudgement.objects.create(
        project=scene.project,
        by=scene.alice,
        state="done",
        total=40,
        done=39,
        words={"score": 1.0, "text": "Right, and said well."},
        report=[{"review": scene.review.pk, "reason": "alice has it open"}],
    )


def _try_unseen(scene: Scene) -> Worker:
    """The worker, whose former adapter does a share of its tasks once more."""
    words = "−1.2 points [−6.0, +3.5] on 31 tasks against 31 others: nothing can be said yet"
    former = scene.candidate
    Shadow.objects.create(worker=scene.worker, adapter=former, percent=10, after_task=0, words=words)
    return scene.worker


def _try_adapter(scene: Scene) -> Worker:
    """A worker beside the others that has an adapter on trial."""
    worker = make_worker(scene.project, name="trial")
    digest = "7a51" * 16
    candidate = Adapter.objects.create(
        project=scene.project,
        worker=worker,
        name=f"trial@v1-{digest[:8]}",
        version=1,
        line_version=1,
        uri="file:///x",
        sha256=digest,
        manifest={},
    )
    Deployment.objects.create(worker=worker, canary=candidate, canary_percent=10, canary_words="31 of 200 tasks done")
    return worker


def find_own_pages() -> dict[str, str]:
    """The pages that stand above projects."""
    return {
        "preferences": reverse("console:preferences"),
        "signing_in": reverse("console:signing-in"),
        "invitations": reverse("console:invitations"),
        "keys": reverse("console:keys"),
        "projects": reverse("console:projects"),
        "admin": reverse("admin:index"),
        "admin_audit": reverse("admin:audit_auditentry_changelist"),
        "not_found": "/p/no-such-project/",
    }
