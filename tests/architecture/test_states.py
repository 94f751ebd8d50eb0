"""Every state table covers every choice, and every state that can be entered has its word in the audit."""

import pytest
from django.apps import apps

from apps.audit.kinds import Kind
from apps.base.models import Stateful

STATEFUL = [model for model in apps.get_models() if issubclass(model, Stateful)]


def test_there_are_state_tables_to_check() -> None:
    assert {model._meta.model_name for model in STATEFUL} >= {"task", "review", "adapter", "batch", "trainingrun"}


@pytest.mark.parametrize("model", STATEFUL, ids=lambda model: model.__name__)
def test_a_state_table_covers_every_choice(model: type[Stateful]) -> None:
    choices = {value for value, _ in model._meta.get_field("state").choices or ()}
    assert {str(state) for state in model.MOVES} == choices
    targets = {str(target) for row in model.MOVES.values() for target in row}
    assert targets <= choices
    assert {str(state) for state in model.EVENTS} >= targets
    assert all(kind in Kind.values for kind in model.EVENTS.values())


@pytest.mark.parametrize("model", STATEFUL, ids=lambda model: model.__name__)
def test_every_state_but_the_first_can_be_reached(model: type[Stateful]) -> None:
    first = str(model._meta.get_field("state").get_default())
    reached, border = {first}, {first}
    while border:
        border = {str(to) for state in border for to in model.MOVES[state]} - reached
        reached |= border
    assert reached == {str(state) for state in model.MOVES}
