"""Tokens as marks that say how sure the model was: by colour, by underline, and in words on pointing at one."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from django.utils.functional import Promise
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.console.rendering.hidden import visible

MOST_LETTERS: Final = 60


class Bucket(NamedTuple):
    """A stretch of log-probabilities with a look of its own. `least`: the lowest it holds."""

    name: str
    least: float
    label: str | Promise


BUCKETS: Final = (
    Bucket("sure", math.log(0.9), gettext_lazy("at least 90 %")),
    Bucket("likely", math.log(0.5), gettext_lazy("50 to 90 %")),
    Bucket("open", math.log(0.1), gettext_lazy("10 to 50 %")),
    Bucket("unlikely", math.log(0.01), gettext_lazy("1 to 10 %")),
    Bucket("rare", -math.inf, gettext_lazy("below 1 %")),
)
GIVEN: Final = "given"
PLAIN: Final = "plain"
_SPACES: Final = {"\n": "⏎\n", "\t": "⇥\t", "\r": "␍"}
_PLAIN: Final = re.compile(rf"[ A-Za-z0-9.,:;()!?_-]{{0,{MOST_LETTERS}}}")
_BYTE_LETTERS: Final = str.maketrans({"Ġ": " ", "Ċ": "\n", "ĉ": "\t", "▁": " "})


def bucket_of(logprob: float) -> str:
    """Name of the stretch a log-probability falls into."""
    return next((bucket.name for bucket in BUCKETS if logprob >= bucket.least), BUCKETS[-1].name)


def say_probability(logprob: float) -> str:
    """A log-probability as the chance it stands for."""
    chance = 100 * math.exp(min(0.0, logprob))
    return f"{chance:.3g}\u00a0%" if chance >= 0.01 else "< 0.01\u00a0%"


def clean_piece(piece: str) -> str:
    """A token as some servers name it (`Ġthe`, `▁the`) as it writes."""
    return piece.translate(_BYTE_LETTERS)


def render_tokens(
    token_ids: Sequence[int],
    *,
    texts: Sequence[str] | None = None,
    logprobs: Sequence[float] | None = None,
    sampled: Sequence[bool] | None = None,
    marks: Mapping[int, str] | None = None,
) -> SafeString:
    """One element a token. Shapes: (N,) each.

    Args:
        texts: what each writes; without them their numbers stand.
        logprobs: natural logarithm; without them all look the same.
        sampled: False: not chosen by the model (a tool's result); without it all were.
        marks: place -> label of what begins there.
    """
    return SafeString("".join(_render(token_ids, texts, logprobs, sampled, marks or {})))


def _render(
    token_ids: Sequence[int],
    words: Sequence[str] | None,
    logprobs: Sequence[float] | None,
    sampled: Sequence[bool] | None,
    marks: Mapping[int, str],
) -> Iterator[str]:
    given = _("given, not chosen")
    looks: dict[float, str] = {}
    for place, token in enumerate(token_ids):
        if place in marks:
            yield f'<b class="begins">{conditional_escape(marks[place])}</b>'
        if sampled is not None and not sampled[place]:
            look = f'class="{GIVEN}" title="{given} · {token}"'
        elif logprobs is None:
            look = f'class="{PLAIN}" title="{token}"'
        else:
            value = logprobs[place]
            if value not in looks:
                looks[value] = f'class="{bucket_of(value)}" title="{say_probability(value)} · {value:.3f} · '
            look = f'{looks[value]}{token}"'
        if words is None:
            yield f"<i {look}>{token}</i> "
        else:
            yield f"<i {look}>{_write(words[place])}</i>"


def _write(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    shown = "".join(_SPACES.get(letter, letter) for letter in word[:MOST_LETTERS])
    return str(conditional_escape(visible(shown)))
