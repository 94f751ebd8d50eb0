"""What can go wrong when a model server is asked."""

from collections.abc import Mapping, Sequence

from apps.base.errors import TentalisError


class ProviderBusyError(TentalisError):
    """The server cannot be reached, is too busy, or broke down: a later try may succeed.

    Args:
        retry_after_s: how long the server asked us to wait; None when it did not say.
        http_status: what it answered; None where it did not.
    """

    status = 503
    code = "provider_busy"
    is_away = True

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        http_status: int | None = None,
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(message, errors=errors)
        self.retry_after_s = retry_after_s
        self.http_status = http_status


class PacedError(ProviderBusyError):
    """The server takes fewer requests than it is asked, and says when it takes more: whoever needs it waits."""

    status = 429
    code = "server_paced"


class NextMinuteError(PacedError):
    """All that a server may be asked in this minute it was asked: nothing is sent, and the turn comes in `wait_s`."""

    is_away = False
    has_a_turn = True

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(message, retry_after_s=wait_s)
        self.wait_s = wait_s


def raise_if_paced(error: Exception) -> None:
    """For whoever leaves out what could not be asked: what is only to be asked later is raised again instead."""
    if isinstance(error, PacedError):
        raise error


class ProviderSilentError(ProviderBusyError):
    """The server took the request, or not even the connection, and gave no answer in the time it had."""

    code = "provider_silent"


class ServerRestsError(ProviderBusyError):
    """The server was silent again and again and is not asked for `wait_s` seconds; whoever needs it waits."""

    code = "server_rests"

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(message, retry_after_s=wait_s)
        self.wait_s = wait_s


class ProviderAnswerError(ProviderBusyError):
    """The server said yes and then something that is not an answer (a broken proxy, say): a later try may succeed.

    It is there, so it is not waited for: each such try counts.
    """

    status = 502
    code = "provider_answer_unreadable"
    is_away = False


class ProviderRefusedError(TentalisError):
    """The server refuses this request and will refuse it again; the message ends with its own words.

    Args:
        server_code: the server's own word for programs; "" when it gave none.
        http_status: what it answered; None where it was not even asked.
    """

    status = 502
    code = "provider_refused"
    is_final = True

    def __init__(
        self,
        message: str,
        *,
        server_code: str = "",
        http_status: int | None = None,
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(message, errors=errors)
        self.server_code = server_code
        self.http_status = http_status


class ModelNotServedError(ProviderRefusedError):
    """The server does not know the model or adapter by that name (it may have been restarted since it was loaded)."""

    status = 404
    code = "model_not_served"


class AdapterNameTakenError(ProviderRefusedError):
    """The server has other weights under that name; what is served is never changed in place.

    Args:
        loaded_from: the directory, in the server's words; "" where it does not say.
    """

    status = 409
    code = "adapter_name_taken"

    def __init__(
        self, message: str, *, loaded_from: str, server_code: str = "", http_status: int | None = None
    ) -> None:
        super().__init__(message, server_code=server_code, http_status=http_status)
        self.loaded_from = loaded_from


class AdapterNotLoadedError(ProviderRefusedError):
    """The server cannot serve the adapter: it does not see its files, takes no adapters, or not such ones."""

    code = "adapter_not_loaded"


class AddressNotAllowedError(ProviderRefusedError):
    """The server's address is private, or was none to begin with, and nothing was sent there."""

    status = 403
    code = "address_not_allowed"
