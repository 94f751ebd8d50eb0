"""What every benchmark of the catalogue is probed with: right answers, none, garbage, another item's, and a refusal."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from apps.checks.graders import open_grader
from apps.evals.catalogue import CatalogueEntry, CatalogueItem
from tentalis.core.grading import Grade, GradedTask, UngradedError
from tentalis.core.scoring.protocol import AttemptContext

GARBAGE: Final = (
    "asdf qwer zxcv",
    "\\boxed{}",
    "lorem ipsum dolor sit amet, consectetur adipiscing elit",
    "%%% ### ??? !!!",
    "<answer></answer>",
)
PAIRS: Final = 60
"""Of items with the answer to another that are graded at most."""
REFUSAL: Final = "I cannot answer."
ORACLE, EMPTY, JUNK, OTHER, REFUSED = "oracle", "empty", "garbage", "another item's", "refusal"


@dataclass
class Probed:
    """What a benchmark's grader made of answers.

    Args:
        values: probe -> mean value; a probe that could not be made has none.
        ungraded: probe -> causes.
        expected: share of pairs of items with the same right answer: what another item's answer gets by that.
        shared: what it may get beyond.
        judgeless: where it asks a judge and none is there: (unscored, right).
    """

    name: str
    items: int
    shared: float
    expected: float = 0.0
    values: dict[str, float] = field(default_factory=dict)
    ungraded: dict[str, list[str]] = field(default_factory=dict)
    judgeless: tuple[int, int] | None = None
    cpu_s: float = 0.0

    def find_faults(self) -> list[str]:
        """What is not as every benchmark has to be."""
        faults = [f"{name}: ungraded, {causes[0]}" for name, causes in self.ungraded.items()]
        limits = {EMPTY: 0.0, REFUSED: 0.0, JUNK: 0.02, OTHER: self.expected + self.shared}
        faults += [
            f"{name}: wanted at most {most:g}, found {self.values[name]:.3f}"
            for name, most in limits.items()
            if self.values.get(name, 0.0) > most + 1e-9
        ]
        if (right := self.values.get(ORACLE)) is not None and right != 1.0:
            faults.append(f"{ORACLE}: wanted 1, found {right:.3f}")
        if self.judgeless is not None and self.judgeless != (self.items, 0):
            faults.append(f"without a judge: wanted {self.items} unscored and 0 right, found {self.judgeless}")
        return faults


def grade_answer(
    entry: CatalogueEntry, item: CatalogueItem, answer: str | None, *, ask: Callable[[str], str] | None = None
) -> Grade:
    """What an item's grader says, checked as it is where an item is installed."""
    grader = open_grader(item.grader or entry.grader)
    grader.check_given(item.reference, item.options)
    context = AttemptContext(
        environment=entry.environment, prompt=item.prompt, text=answer or "", steps=(), answer=answer
    )
    return grader.run(GradedTask(prompt=item.prompt, reference=item.reference, options=item.options, ask=ask), context)


def refuse_to_judge(question: str) -> str:
    """A judge that fails."""
    raise UngradedError("the judge could not be asked")


def probe(
    entry: CatalogueEntry,
    items: Sequence[CatalogueItem],
    *,
    garbage: Sequence[str] = GARBAGE,
    probes: Sequence[str] = (),
) -> Probed:
    """What an entry's grader makes of answers to items.

    Args:
        probes: which; all where none are named.
    """
    started = time.process_time()
    found = Probed(entry.name, len(items), entry.shared)
    asks = any(open_grader(item.grader or entry.grader).asks for item in items)
    if asks:
        grades = [grade_answer(entry, item, "Whatever.", ask=refuse_to_judge) for item in items]
        found.judgeless = (sum(one.value is None for one in grades), sum(bool(one.is_correct) for one in grades))
    answers: dict[str, list[tuple[CatalogueItem, str | None]]] = {EMPTY: [(item, "") for item in items]}
    if not asks:  # what a judge says of words is the judge's own
        known = [item for item in items if item.oracle is not None]
        answers[ORACLE] = [(item, item.oracle) for item in known]
        answers[JUNK] = [(item, junk) for item in items for junk in garbage]
        steps = range(1, min(len(known), 1 + max(1, PAIRS // max(1, len(known)))))
        pairs = [(item, known[(n + step) % len(known)]) for step in steps for n, item in enumerate(known)]
        answers[OTHER] = [(item, other.oracle) for item, other in pairs]
        if pairs:
            found.expected = sum(item.oracle == other.oracle for item, other in pairs) / len(pairs)
        answers[REFUSED] = [(item, REFUSAL) for item in items]
    for name, given in answers.items():
        if not given or (probes and name not in probes):
            continue
        grades = [grade_answer(entry, item, answer) for item, answer in given]
        if causes := [one.cause for one in grades if one.value is None and not one.is_untold]:
            found.ungraded[name] = causes
        values = [one.value or 0.0 for one in grades if one.value is not None or one.is_untold]
        if values:
            found.values[name] = sum(values) / len(values)
    found.cpu_s = time.process_time() - started
    return found


def list_probed(entry: CatalogueEntry, count: int) -> list[CatalogueItem]:
    """Items of an entry: its own, or of rows made up in the shape of its file."""
    if entry.synthetic is None or entry.is_offline:
        return entry.list_items("held_out", count=count)
    items, faults = entry.read_rows(list(entry.synthetic(count, 0)))
    if faults:
        raise ValueError(f"{entry.name}: {faults}")
    return items
