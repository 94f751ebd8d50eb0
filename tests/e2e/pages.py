"""Every page of the console, by name."""

from django.urls import reverse

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
        "runs": path("run-list"),
        "run": path("run", scene.run.pk),
        "failed_run": path("run", scene.failed_run.pk),
        "adapters": path("adapter-list"),
        "adapter": path("adapter", scene.adapter.pk),
        "blockers": path("blockers"),
        "dead_letters": path("dead-letters"),
        "audit": path("audit"),
        "exports": path("exports"),
        "members": path("members"),
        "settings": path("settings"),
        "tokens": path("tokens"),
    }


def find_own_pages() -> dict[str, str]:
    """The pages that stand above projects."""
    return {"preferences": reverse("console:preferences")}
