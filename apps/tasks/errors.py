"""What can go wrong with a task."""

from apps.base.errors import TentalisError


class NoAnswerError(TentalisError):
    """Every try of the group failed; the first reason is in the message."""

    code = "no_answer"


class AllLostError(NoAnswerError):
    """So it was after as many tries as there are: trying again at once cannot help."""

    is_final = True


class CallsNotStoredError(TentalisError):
    """The gateway may not have stored all calls of an attempt yet."""

    code = "calls_not_stored"
    is_away = True

    def __init__(self, *, wait_s: float) -> None:
        super().__init__("the attempt came a moment ago: the gateway may not have stored its last call yet")
        self.wait_s = wait_s
