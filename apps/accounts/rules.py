"""What a project's settings must be, checked with the very code that later reads them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apps.accounts.calendars import CalendarError, require_calendar
from apps.base.errors import BadInputError
from tentalis.core.checked import FieldError
from tentalis.core.field_limits import MAX_BATCH_TASKS, MAX_GROUP, MAX_HELD_OUT_PERCENT
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.recipes import Recipe
from tentalis.core.learning.windows import TrainingPolicy
from tentalis.core.limits import Limits
from tentalis.core.review_policy import ReviewPolicy
from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.weights import WeightProfile
from tentalis.core.session_policy import SessionPolicy
from tentalis.plugins import REGISTRIES

RANGES = {
    "group_size": (1, MAX_GROUP),
    "batch_tasks": (1, MAX_BATCH_TASKS),
    "held_out_percent": (0, MAX_HELD_OUT_PERCENT),
}


def check_project_settings(values: Mapping[str, Any]) -> None:
    """Raises BadInputError that names the setting, its field, what was wanted and what was found."""
    for name, check in CHECKS.items():
        if name in values:
            try:
                check(values[name])
            except (FieldError, ScoringError) as error:
                raise BadInputError.at(name, str(error)) from error
    for name, (low, high) in RANGES.items():
        value = values.get(name, low)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            message = f"wanted a whole number from {low} to {high}, found {value!r}"
            raise BadInputError.at(name, message)


def _check_weight_profiles(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ScoringError(f"wanted an object, found {type(value).__name__}")
    _require_registered("tentalis.worlds", value)
    for environment, weights in value.items():
        _require_registered("tentalis.scorers", WeightProfile.from_json(environment, weights).weights)


def _check_review_policy(value: Any) -> None:
    policy = ReviewPolicy.from_json(value)
    _require_registered("tentalis.worlds", policy.environments)
    _require_registered("tentalis.managers", filter(None, [policy.ai_manager]))


def _require_registered(group: str, names: Iterable[str]) -> None:
    for name in names:
        if name not in REGISTRIES[group]:
            raise FieldError(f"{REGISTRIES[group].noun}: {REGISTRIES[group].refuse(name)}")


def _check_training_policy(value: Any) -> None:
    policy = TrainingPolicy.from_json(value)
    if policy.calendar:
        try:
            require_calendar(policy.calendar)
        except CalendarError as error:
            message = f"calendar: wanted an iCalendar text (RFC 5545): {error!s:.300}"
            raise FieldError(message, field="calendar") from None


CHECKS: Mapping[str, Callable[[Any], object]] = {
    "weight_profiles": _check_weight_profiles,
    "review_policy": _check_review_policy,
    "recipe": Recipe.from_json,
    "gate_policy": GatePolicy.from_json,
    "limits": Limits.from_json,
    "session_policy": SessionPolicy.from_json,
    "training_policy": _check_training_policy,
}
