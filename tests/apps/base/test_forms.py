"""The quick renderer writes what Django's templates write."""

from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.forms.renderers import DjangoTemplates, get_default_renderer
from django.forms.utils import ErrorList
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from apps.base.forms import WRITERS, PlainRenderer

NASTY = "\"><script>alert('1')</script>&amp; ‮ü"
ATTRS: tuple[dict[str, Any], ...] = (
    {},
    {"id": "id_a", "required": True, "disabled": False, "step": "0.05"},
    {"data-x": NASTY, "title": gettext_lazy("Overall score"), "max": 3, "data-safe": SafeString("a&amp;b")},
)
WIDGETS: tuple[type[forms.Widget], ...] = (
    forms.TextInput,
    forms.NumberInput,
    forms.HiddenInput,
    forms.CheckboxInput,
    forms.Textarea,
    forms.EmailInput,
    forms.PasswordInput,
    forms.DateTimeInput,
)
VALUES = (None, "", "0", 0, 1.5, True, NASTY, SafeString("<b>&amp;</b>"), "two\nlines")


@pytest.mark.parametrize("widget", WIDGETS)
def test_inputs_are_the_same_as_by_template(widget: type[forms.Widget]) -> None:
    for attrs in ATTRS:
        for value in VALUES:
            given = widget(attrs=attrs)
            quick = given.render("a1-score", value, renderer=PlainRenderer())
            assert quick == given.render("a1-score", value, renderer=DjangoTemplates()), (attrs, value)
            assert isinstance(quick, SafeString)


class Choice(forms.Form):
    which = forms.ChoiceField(
        choices=[("", gettext_lazy("Overall score")), ("1", NASTY)], widget=forms.RadioSelect(attrs={"data-x": NASTY})
    )
    some = forms.MultipleChoiceField(choices=[("a", "A"), (NASTY, "B")], widget=forms.CheckboxSelectMultiple)


def test_choices_are_the_same_alone_and_in_their_list() -> None:
    data = {"which": "1", "some": [NASTY]}
    quick, usual = Choice(data, renderer=PlainRenderer()), Choice(data, renderer=DjangoTemplates())
    for name in ("which", "some"):
        assert str(quick[name]) == str(usual[name])
        assert [radio.tag() for radio in quick[name]] == [radio.tag() for radio in usual[name]]


def test_errors_are_said_and_none_say_nothing() -> None:
    some: tuple[list[str | Exception], ...] = ([], [NASTY], [ValidationError("one"), "two"])
    for errors in some:
        quick, usual = (str(ErrorList(errors, renderer=kind())) for kind in (PlainRenderer, DjangoTemplates))
        assert quick == usual
    assert str(ErrorList(renderer=PlainRenderer())) == ""


def test_it_is_the_one_in_use_and_names_templates_there_are() -> None:
    assert isinstance(get_default_renderer(), PlainRenderer)
    for name in WRITERS:
        DjangoTemplates().get_template(name)
