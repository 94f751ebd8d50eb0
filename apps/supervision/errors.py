"""What can go wrong with a proposal."""

from apps.base.errors import ConflictError, NotAllowedError


class AlreadyDecidedError(ConflictError):
    """Somebody else, or the clock, was first; the message says who."""

    code = "already_decided"


class NotYoursToDecideError(NotAllowedError):
    """Agents decide nothing, and nobody decides what came under their own name."""

    code = "not_yours_to_decide"


class NotSupervisedError(ConflictError):
    """The task takes no proposal: the platform does it itself, or it is not being worked on from outside any more."""

    code = "takes_no_proposal"
