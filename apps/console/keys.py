"""The one list of the console's keys: what its scripts act on, what `?` shows, and what people give other keys."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.base.errors import BadInputError

EVERYWHERE: Final = "everywhere"
LISTS: Final = "lists"
REVIEW: Final = "review"
REVIEWS: Final = "reviews"
APPROVALS: Final = "approvals"
ITEMS: Final = "items"
PAGES: Mapping[str, str | Promise] = {
    EVERYWHERE: gettext_lazy("Every page of a project"),
    LISTS: gettext_lazy("Lists with rows to choose"),
    REVIEW: gettext_lazy("Reviewing"),
    REVIEWS: gettext_lazy("The queue of reviews"),
    APPROVALS: gettext_lazy("Approvals"),
    ITEMS: gettext_lazy("Two evaluations item by item"),
}
ALSO_THERE: Mapping[str, tuple[str, ...]] = {
    EVERYWHERE: (),
    LISTS: (EVERYWHERE,),
    REVIEW: (EVERYWHERE,),
    REVIEWS: (EVERYWHERE, LISTS),
    APPROVALS: (EVERYWHERE,),
    ITEMS: (EVERYWHERE,),
}
"""Page -> whose keys act there beside its own."""


@dataclass(frozen=True)
class Key:
    """Something a key does on a page.

    Attributes:
        key: what is pressed without a choice of one's own, as browsers name it.
        also: a second key that always does the same.
        is_fixed: it cannot be given another key: it is no single character, or it shows what the others are.
    """

    action: str
    key: str
    label: str | Promise
    group: str | Promise
    page: str = REVIEW
    also: str = ""
    is_fixed: bool = False


_MOVE, _STEP = gettext_lazy("Move"), gettext_lazy("Judge the step")
_ANSWERS, _WHOLE = gettext_lazy("Judge the answers"), gettext_lazy("Judge the whole")
_REVIEW = gettext_lazy("Review")
_QUEUE, _CARD = gettext_lazy("The queue"), gettext_lazy("The chosen proposal")
_EVERYWHERE, _LIST = gettext_lazy("Everywhere"), gettext_lazy("The list")

KEYS: tuple[Key, ...] = (
    Key("search", "/", gettext_lazy("Search everything"), _EVERYWHERE, EVERYWHERE),
    Key("help", "?", gettext_lazy("These keys"), _EVERYWHERE, EVERYWHERE, is_fixed=True),
    Key("tick", "x", gettext_lazy("Choose the row one is at, or the first"), _LIST, LISTS),
    Key("next-step", "j", gettext_lazy("Next step"), _MOVE),
    Key("previous-step", "k", gettext_lazy("Previous step"), _MOVE),
    Key("next-answer", "]", gettext_lazy("Next answer"), _MOVE),
    Key("previous-answer", "[", gettext_lazy("Previous answer"), _MOVE),
    Key("score-1", "1", gettext_lazy("Score 0"), _STEP),
    Key("score-2", "2", gettext_lazy("Score 0.25"), _STEP),
    Key("score-3", "3", gettext_lazy("Score 0.5"), _STEP),
    Key("score-4", "4", gettext_lazy("Score 0.75"), _STEP),
    Key("score-5", "5", gettext_lazy("Score 1"), _STEP),
    Key("thumb-up", "u", gettext_lazy("Right, and on to the next step"), _STEP),
    Key("thumb-down", "d", gettext_lazy("Wrong, and on to the next step"), _STEP),
    Key("first-wrong", "w", gettext_lazy("First wrong step"), _STEP),
    Key("comment", "c", gettext_lazy("Comment"), _STEP),
    Key("mark", "m", gettext_lazy("Mark words: arrows move, Shift stretches, Enter marks"), _STEP),
    Key("prefer", "p", gettext_lazy("This answer is best"), _ANSWERS),
    Key("rank", "r", gettext_lazy("Rank this answer next"), _ANSWERS),
    Key("none-good", "b", gettext_lazy("Even the best is not good enough"), _ANSWERS),
    Key("compare", "v", gettext_lazy("Show differences"), _ANSWERS),
    Key("overall", "o", gettext_lazy("Overall score"), _WHOLE),
    Key("words", "t", gettext_lazy("What should the worker learn?"), _WHOLE),
    Key("edit", "e", gettext_lazy("The answer as it should have been"), _WHOLE),
    Key("correct", "E", gettext_lazy("Correct this answer, beginning with its words"), _WHOLE),
    Key("submit", "Control+Enter", gettext_lazy("Send, and open the next"), _REVIEW, is_fixed=True),
    Key("undo", "z", gettext_lazy("Undo the last one sent"), _REVIEW),
    Key("skip", "s", gettext_lazy("Skip"), _REVIEW),
    Key("give-back", "g", gettext_lazy("Give it back"), _REVIEW),
    Key("leave-field", "Escape", gettext_lazy("Leave a field"), _REVIEW, is_fixed=True),
    Key("queue-next", "n", gettext_lazy("Take the next review"), _QUEUE, REVIEWS),
    Key("queue-undo", "z", gettext_lazy("Undo the last one sent"), _QUEUE, REVIEWS),
    Key("item-next", "j", gettext_lazy("Next item"), _MOVE, ITEMS),
    Key("item-previous", "k", gettext_lazy("Previous item"), _MOVE, ITEMS),
    Key("item-further", "n", gettext_lazy("Further items"), _MOVE, ITEMS),
    Key("proposal-next", "j", gettext_lazy("Choose the next"), _QUEUE, APPROVALS, also="ArrowDown"),
    Key("proposal-previous", "k", gettext_lazy("Choose the one before"), _QUEUE, APPROVALS, also="ArrowUp"),
    Key("proposal-approve", "a", gettext_lazy("Approve"), _CARD, APPROVALS),
    Key("proposal-reject", "r", gettext_lazy("Reject"), _CARD, APPROVALS),
    Key("proposal-edit", "e", gettext_lazy("Change it"), _CARD, APPROVALS),
    Key("proposal-hint", "h", gettext_lazy("Give a hint"), _CARD, APPROVALS),
    Key("proposal-take_over", "t", gettext_lazy("Take over"), _CARD, APPROVALS),
    Key("proposal-fold", "Escape", gettext_lazy("Fold the form away"), _CARD, APPROVALS, is_fixed=True),
)


def find_keys(page: str) -> list[Key]:
    """What acts on a page."""
    return [one for one in KEYS if one.page in (page, *ALSO_THERE[page])]


def write_keys(page: str, chosen: Mapping[str, str]) -> str:
    """What acts on a page, for its scripts, as JSON: action -> {key, label, group}.

    Args:
        chosen: action -> key, of who gave some another key.
    """
    rows = {one.action: _as_row(one, chosen) for one in find_keys(page)}
    return json.dumps(rows, default=str)


def check_keys(chosen: Mapping[str, str]) -> dict[str, str]:
    """What is to be kept of a choice: the keys that are not the built-in ones.

    Raises:
        BadInputError: naming each action that has an unknown key, none, or one that something else on its page has.
    """
    known = {one.action: one for one in KEYS if not one.is_fixed}
    errors = {
        action: [_("there is no such action")] if action not in known else []
        for action, key in chosen.items()
        if action not in known or not is_key(key)
    }
    for action in errors.keys() & known.keys():
        errors[action] = [_("wanted one character that can be seen, found %(found)s") % {"found": repr(chosen[action])}]
    for page in PAGES:
        taken: dict[str, Key] = {}
        for one in sorted(find_keys(page), key=lambda key: not key.is_fixed):
            key = chosen.get(one.action, one.key)
            if key in taken and one.action not in errors:
                other = taken[key]
                said = _("%(key)s is taken by “%(label)s” already") % {"key": key, "label": other.label}
                errors[one.action] = [said]
                if not other.is_fixed:
                    errors.setdefault(
                        other.action, [_("%(key)s is taken by “%(label)s” too") % {"key": key, "label": one.label}]
                    )
            taken.setdefault(key, one)
    if errors:
        first, texts = next(iter(errors.items()))
        raise BadInputError(f"{first}: {texts[0]}", errors=errors)
    return {action: key for action, key in chosen.items() if key != known[action].key}


def is_key(key: str) -> bool:
    """One character that can be seen; a space scrolls the page."""
    return len(key) == 1 and key.isprintable() and not key.isspace()


def _as_row(one: Key, chosen: Mapping[str, str]) -> dict[str, Any]:
    said = asdict(one)
    key = one.key if one.is_fixed else chosen.get(one.action, one.key)
    return {"key": f"{key} {one.also}".strip(), "label": said["label"], "group": said["group"]}
