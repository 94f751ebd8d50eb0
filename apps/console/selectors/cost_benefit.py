"""What learning cost beside what it brought, laid out to be drawn: held-out accuracy over everything spent so far."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.adapters.models import Adapter
from apps.console.words_facts import Words
from apps.training.cost_benefit import Return, Returns, Spent
from tentalis.core.scoring.calibration import wilson_interval

WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 44
TICKS = 4
BARRED = frozenset({Adapter.State.REFUSED, Adapter.State.QUARANTINED})
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True)
class Dot:
    """One model on the drawing. `adapter` None: the base model."""

    x: float
    y: float
    low: float
    high: float
    said: str
    adapter: Adapter | None

    @property
    def is_refused(self) -> bool:
        """Whether it may not serve, for good or for now."""
        return self.adapter is not None and self.adapter.state in BARRED


@dataclass(frozen=True)
class Tick:
    """A line across the drawing, at `at`, and what stands beside it."""

    at: float
    label: str


@dataclass(frozen=True)
class Drawing:
    """Accuracy over what was spent of one kind, as an SVG."""

    name: str
    title: Words
    axis: str
    dots: Sequence[Dot]
    across: Sequence[Tick]
    up: Sequence[Tick]

    width, height, left, bottom, right = WIDTH, HEIGHT, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT
    top, label_y, axis_y = TOP, HEIGHT - BOTTOM + 16, HEIGHT - 8

    @property
    def path(self) -> str:
        """Through the models in their order; what was refused never served and is not on the way."""
        return "M" + "L".join(f"{dot.x} {dot.y}" for dot in self.dots if not dot.is_refused)

    @property
    def middle(self) -> float:
        return (LEFT + WIDTH - RIGHT) / 2


def draw_returns(returns: Returns) -> list[Drawing]:
    """One drawing of each kind of cost that was measured; none before two models were."""
    return [
        drawing
        for name, title, read in (
            ("gpu", gettext_lazy("Held-out accuracy over training time"), lambda spent: spent.gpu_s),
            ("human", gettext_lazy("Held-out accuracy over reviewing time"), _read_human_s),
        )
        if (drawing := _draw(returns, name, title, read)) is not None
    ]


def _read_human_s(spent: Spent) -> float | None:
    return None if spent.human_minutes is None else 60 * spent.human_minutes


def _draw(found: Returns, name: str, title: Words, read: Callable[[Spent], float | None]) -> Drawing | None:
    measured = [row for row in found.rows if row.accuracy is not None and row.adapter is not None]
    most = max((read(row.until) or 0.0 for row in measured), default=0.0)
    if not most:
        return None
    size, unit = _choose_unit(most)
    step = _step(most / size)
    reach = step * math.ceil(most / size / step - 1e-9)
    dots = [_dot(0.0, found.base, None)] if found.base is not None else []
    dots += [_dot((read(row.until) or 0.0) / size / reach, row.accuracy, row) for row in measured if row.accuracy]
    across = [Tick(_across(number * step / reach), f"{number * step:g}") for number in range(round(reach / step) + 1)]
    up = [Tick(_up(share), f"{100 * share:.0f} %") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return Drawing(name, title, unit, dots, across, up)


def _dot(place: float, accuracy: tuple[float, int], row: Return | None) -> Dot:
    share, items = accuracy
    _share, low, high, _items = wilson_interval(share * items, items)
    who = row.adapter.name if row is not None and row.adapter is not None else _("the base model")
    said = _("%(who)s: %(share).1f %% of %(items)d held-out tasks, interval %(low).1f to %(high).1f %%") % {
        "who": who,
        "share": 100 * share,
        "items": items,
        "low": 100 * low,
        "high": 100 * high,
    }
    return Dot(_across(place), _up(share), _up(low), _up(high), said, row.adapter if row is not None else None)


def _across(place: float) -> float:
    return round(LEFT + place * (WIDTH - LEFT - RIGHT), 1)


def _up(share: float) -> float:
    return round(TOP + (1 - share) * (HEIGHT - TOP - BOTTOM), 1)


def _choose_unit(seconds: float) -> tuple[float, str]:
    """Seconds of the unit that people would say it in, and its name."""
    if seconds < 3 * MINUTE:
        return 1.0, _("seconds")
    if seconds < 3 * HOUR:
        return MINUTE, _("minutes")
    return (HOUR, _("hours")) if seconds < 3 * DAY else (DAY, _("days"))


def _step(most: float) -> float:
    """1, 2 or 5 times a power of ten, so that about `TICKS` of them reach `most`."""
    size: float = 10 ** math.floor(math.log10(most / TICKS))
    return next(digit * size for digit in (1.0, 2.0, 5.0, 10.0) if digit * size * TICKS >= most)
