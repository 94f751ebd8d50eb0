"""A worker's rules, as they are stored."""

from apps.base.errors import ConflictError
from apps.workers.models import Worker
from tentalis.core.checked import FieldError
from tentalis.core.supervision import SupervisionPolicy, read_supervision


def read_policy(worker: Worker) -> SupervisionPolicy | None:
    """Raises ConflictError where the stored one cannot be read: nothing is let through by a rule nobody understands."""
    try:
        return read_supervision(worker.supervision)
    except FieldError as error:
        raise ConflictError(f"the supervision of worker {worker.name} cannot be read: {error}") from None
