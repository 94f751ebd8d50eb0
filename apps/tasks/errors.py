"""What can go wrong with a task."""

from apps.base.errors import TentalisError


class NoAnswerError(TentalisError):
    """Every try of the group failed; the first reason is in the message."""

    code = "no_answer"
