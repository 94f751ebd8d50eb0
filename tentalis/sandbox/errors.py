"""What can go wrong with sandboxes. Each message is one line: what was wanted, what was found."""


class SandboxError(Exception):
    """Root of them."""

    code = "error"


class SandboxUnavailableError(SandboxError):
    """This machine cannot confine anything: nothing is run then."""

    code = "unavailable"


class SandboxRefusedError(SandboxError):
    """What was asked for makes no sense: an unknown sandbox or image, an impossible limit, a path that is no file."""

    code = "refused"


class SandboxLostError(SandboxError):
    """The sandbox or its host is gone. That says nothing of what was at work there: no try may be rewarded for it."""

    code = "lost"


BY_CODE = {
    error.code: error for error in (SandboxUnavailableError, SandboxRefusedError, SandboxLostError, SandboxError)
}
