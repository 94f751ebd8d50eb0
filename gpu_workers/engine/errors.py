"""What the engine refuses, in the shape OpenAI's clients expect."""

from typing import Any


class EngineError(Exception):
    """A request that cannot be served; the message says what was wanted and what was found.

    Args:
        param: the request field at fault, if it is one.
        retry_after_s: when a later try may succeed.
    """

    status = 500
    kind = "server_error"
    code = "engine_error"

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code
        self.retry_after_s = retry_after_s

    def to_json(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class InvalidRequestError(EngineError):
    status = 400
    kind = "invalid_request_error"
    code = "invalid_value"


class UnknownModelError(EngineError):
    status = 404
    kind = "invalid_request_error"
    code = "model_not_found"


class AdapterRefusedError(EngineError):
    """An adapter directory that must not be served."""

    status = 400
    kind = "invalid_request_error"
    code = "adapter_refused"


class QueueFullError(EngineError):
    status = 429
    kind = "rate_limit_error"
    code = "queue_full"


class StoppingError(EngineError):
    status = 503
    kind = "server_error"
    code = "engine_stopping"


class ModelUnreadableError(EngineError):
    """The base model's directory cannot be served."""
