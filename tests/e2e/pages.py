"""Every page of the console, by name."""

from django.urls import reverse

from apps.calibration.models import Rater
from apps.feedback.services import claim
from tests.e2e.scenery import Scene


def find_pages(scene: Scene) -> dict[str, str]:
    """Name of a page -> its path in this scene, as alice sees it. Claims the scene's review for her."""
    claim(review=scene.review, by=scene.alice)

    def path(name: str, *args: object) -> str:
        return reverse(f"console:{name}", args=(scene.project.slug, *args))

    return {
        "dashboard": path("project"),
        "tasks": path("task-list"),
        "task": path("task", scene.reviewed.pk),
        "failed_task": path("task", scene.failed.pk),
        "task_new": path("task-new"),
        "feedback": path("task-feedback", scene.reviewed.pk),
        "reviews": path("review-list"),
        "review": path("review", scene.review.pk),
        "review_skip": path("review-skip", scene.review.pk),
        "proposals": path("proposal-list"),
        "proposal": path("proposal", scene.proposal.pk),
        "proposals_decided": path("proposal-decided"),
        "proposal_rules": path("proposal-rules"),
        "quality": path("quality"),
        "rater": path("rater", Rater.objects.get(project=scene.project, handle="user:bob").pk),
        "runs": path("run-list"),
        "run": path("run", scene.run.pk),
        "failed_run": path("run", scene.failed_run.pk),
        "adapters": path("adapter-list"),
        "adapter": path("adapter", scene.adapter.pk),
        "adapter_people": path("adapter-people", scene.adapter.pk),
        "adapter_moved": path("adapter-moved", scene.adapter.pk),
        "feedback_trace": path("feedback", scene.reviewed.feedback.get().pk),
        "my_feedback": path("my-feedback"),
        "task_versions": path("task-versions", scene.reviewed.pk),
        "workers": path("worker-list"),
        "worker": path("worker", scene.worker.name),
        "sessions": path("session-list"),
        "session": path("session", scene.project.sessions.earliest("pk").pk),
        "datasets": path("dataset-list"),
        "dataset": path("dataset", scene.project.datasets.get().pk),
        "blockers": path("blockers"),
        "dead_letters": path("dead-letters"),
        "audit": path("audit"),
        "exports": path("exports"),
        "members": path("members"),
        "settings": path("settings"),
        "tokens": path("tokens"),
    }


def find_manager_pages(scene: Scene) -> dict[str, str]:
    """Pages that take a manager's rights, and pages that are nothing without their query."""

    def path(name: str, *args: object) -> str:
        return reverse(f"console:{name}", args=(scene.project.slug, *args))

    left, right = scene.reviewed.attempts.order_by("index")[:2]
    older = scene.worker.runs.exclude(metrics=[]).exclude(pk=scene.run.pk).first()
    return {
        "review_bulk_new": path("bulk-new"),
        "review_reveal": path("review", scene.reviewed.reviews.get(state="closed").pk),
        "review_compare": f"{path('task-compare', scene.reviewed.pk)}?left=0&right=1&what=whole",
        "review_appeal": path("feedback-appeal", scene.reviewed.feedback.earliest("pk").pk),
        "rater_out": path("rater", Rater.objects.get(project=scene.project, handle="scorer:prm").pk),
        "adapter_promote": path("adapter-promote", scene.candidate.pk),
        "adapter_canary": path("adapter-canary", scene.candidate.pk),
        "roll_back": path("roll-back", scene.worker.name),
        "worker_new": path("worker-new"),
        "worker_change": path("worker-change", scene.worker.name),
        "attempt_compare": f"{path('attempt-compare')}?left={left.pk}&right={right.pk}",
        "run_compare": f"{path('run', scene.run.pk)}{f'?with={older.pk}' if older else ''}",
    }


def find_own_pages() -> dict[str, str]:
    """The pages that stand above projects."""
    return {
        "preferences": reverse("console:preferences"),
        "admin": reverse("admin:index"),
        "admin_audit": reverse("admin:audit_auditentry_changelist"),
        "not_found": "/p/no-such-project/",
    }
