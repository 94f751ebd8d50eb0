"""A way through a task by the site's own pages, element for element, without a browser."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from tentalis.core.gui.reading import PageReader
from tentalis.core.gui.shop import Shop
from tentalis.core.gui.site import START, open_page, send_form
from tentalis.core.gui.tasks import Task, settle_task


class Call(NamedTuple):
    """A call of one of the world's tools."""

    name: str
    arguments: dict[str, Any]


def solve_task(task: Task) -> tuple[list[Call], Shop]:
    """The calls, `done` as the last one, and the shop that they leave.

    Raises:
        LookupError: a page has not the element that the way goes by.
    """
    settled = settle_task(task)
    shop = deepcopy(settled.before)
    return [*_walk(shop, settled.moves), Call("done", {})], shop


def _walk(shop: Shop, moves: list[Any]) -> Iterator[Call]:
    page = PageReader(open_page(shop, START).html)
    for move in moves:
        number = page.find(move.role, move.name)
        element = page.elements[number - 1]
        if move.do == "click":
            yield Call("click", {"element": number})
            if asked := page.click(number):
                method, path, form = asked
                found = send_form(shop, path, form) if method == "post" else open_page(shop, path)
                page = PageReader(found.html)
            continue
        if move.do == "select" and move.value not in element.options:
            raise LookupError(f"wanted an option of {move.name!r}, found {move.value!r}")
        yield Call(move.do, {"element": number, {"type": "text", "select": "option"}[move.do]: move.value})
        element.value = move.value
