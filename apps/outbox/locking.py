"""The order in which rows are locked around a link's last write."""

from collections.abc import Iterable

from apps.outbox.models import Segment


def lock_segments(*, kind: str, subject_ids: Iterable[int]) -> None:
    """Lock the open segments of subjects, in the running transaction: their links cannot end meanwhile.

    A link's last write has its segment's lock before that of any other row, so that who locks those too does the same.
    """
    open_ones = Segment.objects.filter(kind=kind, subject_id__in=list(subject_ids), state=Segment.State.OPEN)
    list(open_ones.order_by("pk").select_for_update().values_list("pk"))
