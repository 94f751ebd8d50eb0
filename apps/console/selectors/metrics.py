"""What a run reported update by update: named in words, grouped, thinned, side by side with other runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext_lazy as _

MOST_POINTS = 2_000
MOST_UPDATES = 20_000
SHORT = 3
"""Updates of a run that a table says better than charts."""
FIRST = ("reward", "kl", "entropy", "mean_length_tokens", "loss", "pair_accuracy", "loss_preference", "accuracy")
MOST_FIRST = 4

GROUPS = {
    "reward": _("What it earns"),
    "drift": _("How far it moves"),
    "loss": _("What it minimises"),
    "answers": _("What it writes"),
    "speed": _("How fast it learns"),
    "other": _("What else it said"),
}


@dataclass(frozen=True)
class MetricWords:
    """A metric as people read it. `unit` "" where it has none."""

    group: str
    label: Any
    unit: Any
    about: Any


WORDS: Mapping[str, MetricWords] = {
    "reward": MetricWords(
        "reward", _("Mean reward"), _("0 to 1"), _("What the attempts of this update were worth, on average.")
    ),
    "accuracy": MetricWords(
        "reward", _("Fully right"), _("share"), _("Share of the attempts that earned the whole reward.")
    ),
    "zero_variance_groups": MetricWords(
        "reward",
        _("Tasks that teach nothing"),
        _("tasks"),
        _("All attempts earned the same, so there was nothing to prefer."),
    ),
    "zero_variance_rate": MetricWords(
        "reward", _("Tasks that teach nothing"), _("share"), _("Share of tasks whose attempts all earned the same.")
    ),
    "kl": MetricWords(
        "drift", _("Distance from the start of the run"), _("nats a token"), _("How much its choices have changed.")
    ),
    "kl_base": MetricWords(
        "drift", _("Distance from the base model"), _("nats a token"), _("How much its choices differ from the base's.")
    ),
    "max_ratio": MetricWords(
        "drift",
        _("Largest ratio"),
        _("new over old probability"),
        _("The token whose probability rose most; far above 2 the update leaves what it was measured on."),
    ),
    "clip_fraction": MetricWords(
        "drift", _("Clipped tokens"), _("share"), _("Tokens whose change was cut off for being too large.")
    ),
    "displaced": MetricWords(
        "drift",
        _("Displaced answers"),
        _("share"),
        _("Of the answers it rewards, those that became less than half as likely: it unlearns them."),
    ),
    "grad_norm": MetricWords(
        "drift", _("Gradient norm"), "", _("Length of the step before it is cut to the recipe's limit.")
    ),
    "staleness": MetricWords(
        "drift", _("Staleness"), _("versions"), _("How many versions old the attempts are that it learns from.")
    ),
    "staleness_max": MetricWords(
        "drift", _("Oldest attempt"), _("versions"), _("How many versions old the oldest attempt is.")
    ),
    "loss": MetricWords("loss", _("Loss"), "", _("What the update makes smaller: reward and hints together.")),
    "loss_preference": MetricWords(
        "loss", _("Loss from preferences"), "", _("The part that follows pairs, judged answers or demonstrations.")
    ),
    "nll_chosen": MetricWords(
        "loss", _("Surprise at the better answer"), _("nats a token"), _("What keeps the better answer itself likely.")
    ),
    "margin": MetricWords(
        "reward", _("Better over worse"), _("nats"), _("How much the better answer of a pair gained on the other.")
    ),
    "pair_accuracy": MetricWords(
        "reward", _("Pairs ordered right"), _("share"), _("Pairs whose better answer gained more than the other.")
    ),
    "chosen_gain": MetricWords(
        "drift", _("Gain of the better answers"), _("nats a token"), _("Below 0 they became less likely themselves.")
    ),
    "drift": MetricWords(
        "drift",
        _("Gain of answers to other prompts"),
        _("nats"),
        _("KTO's reference point z0, an estimate of its KL: what each judged answer's gain is compared with."),
    ),
    "reward_chosen": MetricWords(
        "reward",
        _("Implicit reward of good answers"),
        "",
        _("Beta times the nats that chosen or good answers gained since the run began (TRL: rewards/chosen)."),
    ),
    "reward_rejected": MetricWords(
        "reward",
        _("Implicit reward of bad answers"),
        "",
        _("Beta times the nats that rejected or bad answers gained since the run began (TRL: rewards/rejected)."),
    ),
    "reward_margin": MetricWords(
        "reward",
        _("Good over bad answers"),
        "",
        _("Implicit reward of the good ones less that of the bad ones (TRL: rewards/margins)."),
    ),
    "logp_chosen": MetricWords(
        "drift", _("Log-probability of good answers"), _("nats an answer"), _("Summed over their tokens (TRL: logps).")
    ),
    "logp_rejected": MetricWords(
        "drift", _("Log-probability of bad answers"), _("nats an answer"), _("Summed over their tokens (TRL: logps).")
    ),
    "examples_chosen": MetricWords(
        "answers", _("Good answers in the update"), _("answers"), _("KTO's desirable ones: a reward of .5 or more.")
    ),
    "examples_rejected": MetricWords(
        "answers", _("Bad answers in the update"), _("answers"), _("KTO's undesirable ones: a reward below .5.")
    ),
    "weight_chosen": MetricWords(
        "loss", _("Weight of a good answer"), "", _("KTO's lambda: both kinds balanced, times the recipe's weight.")
    ),
    "weight_rejected": MetricWords(
        "loss", _("Weight of a bad answer"), "", _("KTO's lambda: both kinds balanced, times the recipe's weight.")
    ),
    "share_chosen": MetricWords(
        "loss", _("Weight of all good answers"), _("share"), _("Of all; .5 to .57 is good over bad of 1 to 4/3.")
    ),
    "loss_rl": MetricWords("loss", _("Loss from rewards"), "", _("The part that follows the rewards.")),
    "loss_opd": MetricWords(
        "loss", _("Loss from hints"), "", _("The part that follows the teacher who read the hint.")
    ),
    "entropy": MetricWords(
        "answers", _("Entropy"), _("nats a token"), _("How undecided it is; a fall to 0 means that it stopped trying.")
    ),
    "mean_length_tokens": MetricWords(
        "answers", _("Length of answers"), _("tokens"), _("Tokens it wrote in an attempt, on average.")
    ),
    "rollouts": MetricWords(
        "speed", _("Attempts in the update"), _("attempts"), _("How many it learned from at once.")
    ),
    "tokens_per_s": MetricWords(
        "speed", _("Tokens a second"), _("tokens/s"), _("Tokens it learned from in a second of training.")
    ),
}
INITIALS = {"kl", "opd", "rl"}
NOT_DRAWN = frozenset({"update", "updates"})
"""Counts of the updates themselves: what everything else is drawn over."""


@dataclass(frozen=True)
class Chart:
    """One metric over the updates of one or more runs.

    Attributes:
        updates: update numbers, from 1, of the points that are drawn.
        series: one list of values a run, in the order of the page's runs; None where a run did not report it.
    """

    name: str
    words: MetricWords
    updates: Sequence[int]
    series: Sequence[Sequence[float | None]]
    is_thinned: bool = False

    @property
    def columns(self) -> str:
        """Which columns of its table are drawn."""
        return " ".join(str(place + 1) for place in range(len(self.series)))

    @property
    def rows(self) -> list[tuple[int, tuple[float | None, ...]]]:
        return list(zip(self.updates, zip(*self.series, strict=True), strict=True))


@dataclass(frozen=True)
class ChartGroup:
    """Charts about one question."""

    name: str
    label: Any
    charts: Sequence[Chart]


def group_charts(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[ChartGroup]:
    """Every metric that the runs reported, the first run's page with the others beside it.

    Args:
        runs: the metrics of each run, one mapping an update; of more than `MOST_UPDATES` the last.
    """
    cut = [list(metrics[-MOST_UPDATES:]) for metrics in runs]
    names = dict.fromkeys(
        name
        for metrics in cut
        for row in metrics
        for name, value in row.items()
        if name not in NOT_DRAWN and is_number(value)
    )
    charts = [_chart(name, cut) for name in names]
    order = {name: place for place, name in enumerate(WORDS)}
    charts.sort(key=lambda chart: order.get(chart.name, len(order)))
    groups = []
    for name, label in GROUPS.items():
        if members := [chart for chart in charts if chart.words.group == name]:
            groups.append(ChartGroup(name, label, members))
    return groups


def split_charts(groups: Sequence[ChartGroup]) -> tuple[list[Chart], list[ChartGroup]]:
    """The few charts that a run is read by, and the groups of all others."""
    by_name = {chart.name: chart for group in groups for chart in group.charts}
    first = [by_name[name] for name in FIRST if name in by_name][:MOST_FIRST] or list(by_name.values())[:MOST_FIRST]
    others = [replace(group, charts=[one for one in group.charts if one not in first]) for group in groups]
    return first, [group for group in others if group.charts]


def say_metric(name: str) -> MetricWords:
    """The words of a metric; of one nobody has described, its own name."""
    if name in WORDS:
        return WORDS[name]
    said = name.replace("_per_s", "_per_second").replace("_", " ")
    label = said.upper() if said in INITIALS else said[:1].upper() + said[1:]
    return MetricWords("other", label, "", "")


def thin(values: Sequence[float | None], most: int) -> list[int]:
    """Places of at most `most` points that draw the same line: first, last, and of each stretch the point that stands
    out most from the one chosen before and the mean of the next stretch. Gaps are left out.

    Source:
        Largest-Triangle-Three-Buckets: Steinarsson 2013, "Downsampling time series for visual representation".
    """
    if most < 3:
        raise ValueError(f"most must be at least 3, found {most}")
    points = [(place, value) for place, value in enumerate(values) if value is not None]
    count = len(points)
    if count <= most:
        return [place for place, _value in points]
    size = (count - 2) / (most - 2)
    edges = [1 + int(number * size) for number in range(most - 2)] + [count - 1]
    chosen = [points[0]]
    for number in range(most - 2):
        following = points[edges[number + 1] : edges[number + 2] if number + 2 < len(edges) else count]
        x_next = sum(x for x, _y in following) / len(following)
        y_next = sum(y for _x, y in following) / len(following)
        x_last, y_last = chosen[-1]
        chosen.append(
            max(
                points[edges[number] : edges[number + 1]],
                key=lambda point: abs(
                    (x_last - x_next) * (point[1] - y_last) - (x_last - point[0]) * (y_next - y_last)
                ),
            )
        )
    chosen.append(points[-1])
    return [place for place, _value in chosen]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _chart(name: str, runs: Sequence[Sequence[Mapping[str, Any]]]) -> Chart:
    numbered = [{_find_update(row, place): row for place, row in enumerate(metrics, start=1)} for metrics in runs]
    numbers = sorted({number for rows in numbered for number in rows})
    cells = [[rows.get(number, {}).get(name) for number in numbers] for rows in numbered]
    values = [[cell if is_number(cell) else None for cell in column] for column in cells]
    share = max(3, MOST_POINTS // len(values))
    places = sorted({place for column in values for place in thin(column, share)})
    return Chart(
        name=name,
        words=say_metric(name),
        updates=[numbers[place] for place in places],
        series=[[column[place] for place in places] for column in values],
        is_thinned=len(places) < len(numbers),
    )


def _find_update(row: Mapping[str, Any], place: int) -> int:
    """The number of the update that a row is of; its place where it does not say."""
    update = row.get("update")
    return int(update) if update is not None and is_number(update) else place
