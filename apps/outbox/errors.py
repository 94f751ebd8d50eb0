"""What can go wrong with durable work."""

from apps.base.errors import ConflictError, TentalisError


class LostClaimError(ConflictError):
    """Another process holds the link by now: throw the work away."""

    code = "lost_claim"


class BrokerAwayError(TentalisError):
    """The broker cannot be reached; what was to be sent stays in the outbox."""

    status = 503
    code = "broker_away"
    is_away = True
