"""What a project's settings must be, checked with the very code that later reads them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from apps.accounts.calendars import CalendarError, require_calendar
from apps.base.errors import BadInputError
from tentalis.core.learning.gate import GateError, GatePolicy
from tentalis.core.learning.recipes import Recipe, RecipeError
from tentalis.core.learning.windows import TrainingPolicy, TrainingPolicyError
from tentalis.core.limits import Limits, LimitsError
from tentalis.core.review_policy import PolicyError, ReviewPolicy
from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.weights import ENVIRONMENTS, WeightProfile
from tentalis.core.session_policy import SessionPolicy, SessionPolicyError

RANGES = {"group_size": (1, 64), "batch_tasks": (1, 100_000)}


def check_project_settings(values: Mapping[str, Any]) -> None:
    """Raises BadInputError that names the field, what was wanted and what was found."""
    for name, check in CHECKS.items():
        if name in values:
            try:
                check(values[name])
            except (
                PolicyError,
                RecipeError,
                ScoringError,
                GateError,
                LimitsError,
                SessionPolicyError,
                TrainingPolicyError,
                TypeError,
            ) as error:
                raise BadInputError.at(name, str(error)) from None
    for name, (low, high) in RANGES.items():
        value = values.get(name, low)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            message = f"wanted a whole number from {low} to {high}, found {value!r}"
            raise BadInputError.at(name, message)


def _require_object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"wanted an object, found {type(value).__name__}")
    return value


def _check_weight_profiles(value: Any) -> None:
    for environment, weights in _require_object(value).items():
        if environment not in ENVIRONMENTS:
            raise ScoringError(f"wanted environments of {', '.join(ENVIRONMENTS)}, found {environment!r}")
        WeightProfile.from_json(environment, weights)


def _check_review_policy(value: Any) -> None:
    ReviewPolicy.from_json(_require_object(value))


def _check_recipe(value: Any) -> None:
    Recipe.from_json(_require_object(value))


def _check_gate_policy(value: Any) -> None:
    known = [field.name for field in dataclasses.fields(GatePolicy)]
    policy = _require_object(value)
    if unknown := sorted(set(policy) - set(known)):
        raise GateError(f"a gate policy has no field {', '.join(unknown)}; it knows {', '.join(known)}")
    for name, number in policy.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise GateError(f"gate policy {name} must be a number, found {number!r}")
    GatePolicy(**policy)


def check_limits(value: Any) -> None:
    """Raises LimitsError or TypeError where a project's or a token's limits cannot be these."""
    Limits.from_json(_require_object(value))


def _check_session_policy(value: Any) -> None:
    SessionPolicy.from_json(_require_object(value))


def _check_training_policy(value: Any) -> None:
    policy = TrainingPolicy.from_json(_require_object(value))
    if policy.calendar:
        try:
            require_calendar(policy.calendar)
        except CalendarError as error:
            raise TrainingPolicyError(f"calendar: wanted an iCalendar text (RFC 5545): {error!s:.300}") from None


CHECKS: dict[str, Callable[[Any], None]] = {
    "weight_profiles": _check_weight_profiles,
    "review_policy": _check_review_policy,
    "recipe": _check_recipe,
    "gate_policy": _check_gate_policy,
    "limits": check_limits,
    "session_policy": _check_session_policy,
    "training_policy": _check_training_policy,
}
