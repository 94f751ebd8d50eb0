"""References as people type them, and what one would say of an answer."""

from collections.abc import Mapping
from typing import Any

from apps.base.errors import BadInputError
from apps.base.web_json import read_web_json
from apps.checks.language import read_number
from apps.worlds.registry import get_world
from apps.worlds.verifying import verify_answer
from tentalis.core.strict_json import StrictJsonError
from tentalis.core.worlds import AttemptDraft


def read_reference(text: str, match: str = "") -> Any:
    """What was typed as a reference, as the API takes it; None where nothing was.

    Args:
        match: exact, contains or number; "" takes number for a number and contains for any other text. A JSON object
            is taken as it is: it says itself how it matches.
    """
    typed = text.strip()
    if not typed:
        return None
    if typed.startswith("{"):
        try:
            found = read_web_json(typed)
        except StrictJsonError:
            found = None
        if isinstance(found, Mapping):
            return found
    return {"match": match or ("contains" if read_number(typed) is None else "number"), "value": typed}


def try_reference(*, environment: str, prompt: str, reference: Any, answer: str) -> Mapping[str, Any]:
    """What the check that a reference is says of an answer, as JSON. Writes nothing.

    Raises:
        BadInputError: the reference cannot be used in this environment.
    """
    try:
        get_world(environment).check_reference(reference)
    except ValueError as error:
        raise BadInputError.at("reference", str(error)) from None
    draft = AttemptDraft(answer=answer)
    found = verify_answer(environment=environment, prompt=prompt, reference=reference, draft=draft)
    if found is None or not found.checks:
        raise BadInputError.at("reference", "wanted a reference to try the answer against, found none")
    return found.checks[0]
