"""What can keep the gate from an answer."""

from apps.base.errors import ConflictError


class WaitsForPeopleError(ConflictError):
    """People have yet to say which answers are better; the gate goes on when they did, or when their time is over."""

    code = "waits_for_people"
