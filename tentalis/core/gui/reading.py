"""What can be done on a page, read off its HTML: the same elements in the same order as a browser numbers them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

_ROLES = {"a": "link", "button": "button", "select": "combobox"}


@dataclass
class Element:
    """Something that can be acted on.

    Attributes:
        role: link, button, textbox, combobox or checkbox.
        key, value: as its form sends it; of a link the address.
        form: number of its form on the page; -1: none.
    """

    role: str
    name: str
    key: str = ""
    value: str = ""
    is_on: bool = False
    options: list[str] = field(default_factory=list)
    form: int = -1


class PageReader(HTMLParser):
    """A page as a person without a screen has it: elements, and the forms that they belong to.

    Attributes:
        forms: (method, path) of each.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.forms: list[tuple[str, str]] = []
        self._form, self._text, self._label = -1, "", -1
        self.feed(html)

    def find(self, role: str, name: str) -> int:
        """The number of an element, from 1. Raises LookupError where there is none, or there are several."""
        found = [place for place, one in enumerate(self.elements, 1) if (one.role, one.name) == (role, name)]
        if len(found) != 1:
            raise LookupError(f"wanted one {role} {name!r}, found {len(found)}")
        return found[0]

    def click(self, number: int) -> tuple[str, str, Mapping[str, str]] | None:
        """(method, path, form) of what an element asks the site for; None: it changes only the page."""
        one = self.elements[number - 1]
        if one.role == "link":
            return "get", one.value, {}
        if one.role == "checkbox":
            one.is_on = not one.is_on
        if one.role != "button":
            return None
        method, path = self.forms[one.form]
        told = {
            other.key: "on" if other.role == "checkbox" else other.value
            for other in self.elements
            if other.form == one.form and other.role != "button" and (other.role != "checkbox" or other.is_on)
        }
        told |= {one.key: one.value} if one.key else {}
        return (method, path, told) if method == "post" else ("get", f"{path}?{urlencode(told)}", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((told["method"], told["action"]))
            self._form = len(self.forms) - 1
        elif tag == "label":
            self._label, self._text = len(self.elements), ""
        elif tag in {"a", "button", "select", "input"}:
            role = _ROLES.get(tag) or ("checkbox" if told.get("type") == "checkbox" else "textbox")
            value = told.get("href" if tag == "a" else "value", "")
            one = Element(role, "", told.get("name", ""), value, "checked" in told, form=self._form)
            self.elements.append(one)
            self._text = self._text if tag in {"select", "input"} else ""
        elif tag == "option":
            self._label_text, self._text = self._text, ""
            self._is_chosen = "selected" in told

    def handle_endtag(self, tag: str) -> None:
        text = " ".join(self._text.split())
        if tag == "form":
            self._form = -1
        elif tag in {"a", "button"}:
            self.elements[-1].name = text
        elif tag == "option":
            one = self.elements[-1]
            one.options.append(text)
            one.value = text if self._is_chosen or len(one.options) == 1 else one.value
            self._text = self._label_text
        elif tag == "label" and self._label < len(self.elements):
            self.elements[self._label].name = text

    def handle_data(self, data: str) -> None:
        self._text += data
