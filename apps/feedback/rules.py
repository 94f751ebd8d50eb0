"""A project's review policy as it is stored: the core's policy, and who the AI manager is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.base.errors import BadInputError
from tentalis.core.review_policy import PolicyError, ReviewPolicy

AI_MANAGERS = ("rule-book", "llm")


@dataclass(frozen=True)
class ReviewRules:
    """Args:
    ai_manager: who reviews where the policy asks an AI manager; "" takes the rule book at the desk, a model elsewhere.
    model: of the `llm` manager; "" takes the installation's.
    """

    policy: ReviewPolicy
    ai_manager: str = ""
    model: str = ""

    def manager_for(self, environment: str) -> str:
        return self.ai_manager or ("rule-book" if environment == "desk" else "llm")


def validate_review_policy(data: Any) -> ReviewRules:
    """Read a stored policy; {} is the built-in.

    Raises:
        BadInputError: naming the field, what was wanted and what was found.
    """
    if not isinstance(data, Mapping):
        raise _refuse("review_policy", f"wanted an object, found {type(data).__name__}")
    values = dict(data)
    ai_manager, model = values.pop("ai_manager", ""), values.pop("model", "")
    if ai_manager not in ("", *AI_MANAGERS):
        raise _refuse("ai_manager", f"wanted one of {', '.join(AI_MANAGERS)}, found {ai_manager!r}")
    if not isinstance(model, str) or len(model) > 200:
        raise _refuse("model", f"wanted the name of a model, found {model!r:.100}")
    try:
        policy = ReviewPolicy.from_json(values)
    except PolicyError as error:
        raise BadInputError(f"review_policy: {error}", errors={error.field: [str(error)]}) from None
    except TypeError as error:
        raise _refuse("review_policy", str(error)) from None
    return ReviewRules(policy, ai_manager, model)


def _refuse(field: str, message: str) -> BadInputError:
    return BadInputError(f"review_policy: {field}: {message}", errors={field: [message]})
