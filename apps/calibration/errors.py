"""What can go wrong in calibration."""

from apps.base.errors import ConflictError


class NotQuarantinedError(ConflictError):
    """Only a quarantined rater can be reinstated."""

    code = "not_quarantined"
