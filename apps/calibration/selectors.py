"""What is known of raters: weights and quarantine for the apps that use their words, rows for pages."""

from collections.abc import Iterable

from apps.calibration.models import Rater

UNKNOWN_WEIGHT = 1.0


def weights_of(project_id: int, handles: Iterable[str]) -> dict[str, float]:
    """Handle -> factor on the trust in its word, for every handle asked for. One query.

    In [0, 1]; 1 for a rater nobody compared yet, 0 for a quarantined one.
    """
    wanted = set(handles)
    rows = Rater.objects.filter(project_id=project_id, handle__in=wanted).order_by()
    found = {
        handle: 0.0 if quarantined_at else weight
        for handle, weight, quarantined_at in rows.values_list("handle", "weight", "quarantined_at")
    }
    return {handle: found.get(handle, UNKNOWN_WEIGHT) for handle in wanted}


def is_quarantined(project_id: int, handle: str) -> bool:
    """Its word is not used, and it is given no new reviews."""
    return Rater.objects.filter(project_id=project_id, handle=handle, quarantined_at__isnull=False).exists()
