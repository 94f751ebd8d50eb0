"""Words of AI managers that were kept before it was told which judge they asked: nobody knows whether it fell since."""

from collections.abc import Iterable, Mapping

from django.db.models import Count, Q

from apps.accounts.models import Project
from apps.calibration.models import Rater
from apps.feedback.managers import rubric, verdict
from apps.feedback.models import Feedback
from apps.judges.models import JudgeProbe
from apps.worlds.registry import find_world


def count_unnamed(project: Project, below: Iterable[JudgeProbe]) -> Mapping[str, int]:
    """Manager's handle -> its words that count, name no judge, and may be those of one that fell: said before its probe
    ended, by a manager that asks a judge. At most two queries, none where no judge fell.

    Args:
        below: the probes by which judges are below their bar.
    """
    ended = [probe.finished_at for probe in below if probe.finished_at]
    if not ended:
        return {}
    managers = Q(author__startswith=rubric.PREFIX) | Q(author__startswith=verdict.PREFIX)
    unnamed = Feedback.objects.counting().filter(managers, project=project, judge={}, trust__gt=0)
    rows = unnamed.filter(created_at__lte=max(ended)).order_by("author").values_list("author").annotate(n=Count("pk"))
    said = {author: count for author, count in rows if not _finds_by_itself(author)}
    without = Rater.objects.filter(project=project, handle__in=list(said)).exclude(quarantined_at=None, adapter={})
    silent = set(without.values_list("handle", flat=True)) if said else set()
    return {author: count for author, count in said.items() if author not in silent}


def _finds_by_itself(author: str) -> bool:
    """Whether it is the rubric manager of a world that finds the items without asking anybody."""
    return author.startswith(rubric.PREFIX) and find_world(author.removeprefix(rubric.PREFIX)).rubric is not None
