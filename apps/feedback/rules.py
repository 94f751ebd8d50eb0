"""Reading a project's review policy."""

from typing import Any

from apps.base.errors import BadInputError
from tentalis.core.checked import FieldError
from tentalis.core.review_policy import ReviewPolicy


def validate_review_policy(data: Any) -> ReviewPolicy:
    """Read a stored policy; {} is the built-in.

    Raises:
        BadInputError: naming the field, what was wanted and what was found.
    """
    try:
        return ReviewPolicy.from_json(data)
    except FieldError as error:
        raise BadInputError(f"review_policy: {error}", errors={error.field: [str(error)]}) from None
