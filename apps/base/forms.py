"""How forms become HTML."""

from collections.abc import Callable, Mapping
from typing import Any

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

INPUTS = ("checkbox", "hidden", "number", "radio_option", "checkbox_option", "text")


class PlainRenderer(DjangoTemplates):
    """Django's own renderer, but what a form holds by the hundred is written without a template: the same, sooner.

    A review of eight attempts has two hundred inputs and as many empty lists of errors; by templates they took half
    of its page's time.
    """

    def render(self, template_name: str, context: dict[str, Any], request: HttpRequest | None = None) -> str:
        write = WRITERS.get(template_name)
        written = write(context) if write is not None else None
        return super().render(template_name, context, request) if written is None else written


def _write_input(context: Mapping[str, Any]) -> SafeString | None:
    widget = context["widget"]
    if widget.get("wrap_label"):
        return None
    value = widget["value"]
    valued = "" if value is None else f' value="{conditional_escape(value)}"'
    kind, name = conditional_escape(widget["type"]), conditional_escape(widget["name"])
    return SafeString(f'<input type="{kind}" name="{name}"{valued}{_write_attrs(widget)}>')


def _write_textarea(context: Mapping[str, Any]) -> SafeString:
    widget = context["widget"]
    words = conditional_escape(widget["value"]) if widget["value"] else ""
    return SafeString(
        f'<textarea name="{conditional_escape(widget["name"])}"{_write_attrs(widget)}>\n{words}</textarea>'
    )


def _write_errors(context: Mapping[str, Any]) -> SafeString | None:
    """Where there are some, the template says them."""
    return None if context["errors"] else SafeString("")


def _write_attrs(widget: Mapping[str, Any]) -> str:
    return "".join(
        f" {conditional_escape(name)}" + ("" if value is True else f'="{conditional_escape(value)}"')
        for name, value in widget["attrs"].items()
        if value is not False
    )


WRITERS: Mapping[str, Callable[[Mapping[str, Any]], SafeString | None]] = {
    **{f"django/forms/widgets/{name}.html": _write_input for name in INPUTS},
    "django/forms/widgets/textarea.html": _write_textarea,
    "django/forms/errors/list/default.html": _write_errors,
}
