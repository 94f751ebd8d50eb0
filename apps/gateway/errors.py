"""What a caller of the gateway is refused, before it is put into the words of the API that is spoken."""

from apps.base.errors import TentalisError


class RefusalError(TentalisError):
    """A request that gets an error for an answer.

    Args:
        status: of the answer. code: the API's word for it.
        param: the request's field at fault, if one is.
        retry_after_s: when a later try may succeed.
        is_recorded: whether it is kept as an exchange; what is refused to shed load is not.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        param: str = "",
        retry_after_s: float | None = None,
        is_recorded: bool = True,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self.is_recorded = is_recorded


def refuse_model(name: str) -> RefusalError:
    return RefusalError(
        f"no model {name[:200]!r} here; GET /v1/models lists those there are",
        status=404,
        code="model_not_found",
        param="model",
    )


def refuse_busy(message: str, *, retry_after_s: float = 1.0, code: str = "overloaded") -> RefusalError:
    return RefusalError(message, status=429, code=code, retry_after_s=retry_after_s, is_recorded=False)
