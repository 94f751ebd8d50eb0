"""What can go wrong with adapters."""

from apps.base.errors import TentalisError


class AdapterBrokenError(TentalisError):
    """The adapter's directory is not what its manifest and its hash say."""

    status = 422
    code = "adapter_broken"
    is_final = True


class AdapterNotServableError(AdapterBrokenError):
    """The files are whole, and the server that should serve them cannot: no such adapters, or none at all."""

    code = "adapter_not_servable"


class WrongAdapterServedError(TentalisError):
    """The server answered with another adapter than the one asked for; nothing may be deployed on that ground."""

    status = 502
    code = "wrong_adapter_served"


class MovedMeanwhileError(TentalisError):
    """What serves is not what was compared with any more: to be done again."""

    status = 409
    code = "moved_meanwhile"


class WrongLineError(TentalisError):
    """An adapter that one person taught was about to serve another."""

    status = 409
    code = "wrong_line"
    is_final = True
