"""JSON that came to the web, in a body or typed into a field, within the web's limits."""

from typing import Any

from tentalis.core.strict_json import read_json
from tentalis.limits import LIMITS


def read_web_json(text: str) -> Any:
    """The value of a JSON text. Raises StrictJsonError, a ValueError, for what is none or goes beyond the limits."""
    return read_json(text, most_levels=LIMITS.web_json_depth, most_digits=LIMITS.number_digits)
