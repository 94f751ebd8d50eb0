"""What a pretrained model can do besides its work: plain text it finds likely, and small things it knows to be so.

No reward sees either, so that forgetting shows. Both are read from log-probs alone: nothing is sampled, no answer needs
a form, and a model that only goes on with text is measured as well as one that chats.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random
from statistics import NormalDist, fmean, stdev
from typing import Final, NamedTuple

from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.gate import PairedComparison, compare_paired

SEED: Final = 11
NAMES: Final = ("Anna", "Paul", "Maria", "David", "Laura", "Peter", "Julia", "Simon")
WORDS: Final = (
    *("apple", "bridge", "candle", "dragon", "engine", "flower", "garden", "hammer", "island", "jacket", "kitten"),
    *("lemon", "mirror", "needle", "orange", "pencil", "queen", "river", "silver", "table", "violin", "window"),
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class SentencePair(NamedTuple):
    """Two sentences that differ in what makes one of them true."""

    right: str
    wrong: str


def make_pairs(count: int, *, seed: int = SEED) -> list[SentencePair]:
    """Sums, comparisons, letters and orders, by turns; the same for the same seed."""
    drawn = Random(seed)
    kinds = (_make_sum, _make_comparison, _make_letter, _make_difference, _make_taller, _make_order, _make_day)
    found: dict[SentencePair, None] = {}
    for make in cycle(kinds):
        if len(found) == count:
            break
        found[make(drawn)] = None
    return list(found)


def _make_sum(drawn: Random) -> SentencePair:
    first, second, off = drawn.randint(2, 19), drawn.randint(2, 19), drawn.choice((-3, -2, -1, 1, 2, 3))
    return SentencePair(*(f"{first} plus {second} is {total}." for total in (first + second, first + second + off)))


def _make_difference(drawn: Random) -> SentencePair:
    second, rest, off = drawn.randint(2, 19), drawn.randint(4, 19), drawn.choice((-3, -2, -1, 1, 2, 3))
    return SentencePair(*(f"{second + rest} minus {second} is {left}." for left in (rest, rest + off)))


def _make_comparison(drawn: Random) -> SentencePair:
    low, high = sorted(drawn.sample(range(10, 100), 2))
    return SentencePair(f"{high} is more than {low}.", f"{low} is more than {high}.")


def _make_letter(drawn: Random) -> SentencePair:
    word, other = drawn.sample(WORDS, 2)
    return SentencePair(*(f'The word "{word}" begins with the letter {one[0]}.' for one in (word, other)))


def _make_taller(drawn: Random) -> SentencePair:
    first, second, third = drawn.sample(NAMES, 3)
    told = f"{first} is taller than {second}. {second} is taller than {third}. The tallest of them is"
    return SentencePair(f"{told} {first}.", f"{told} {third}.")


def _make_order(drawn: Random) -> SentencePair:
    first, second = sorted(drawn.sample(WORDS, 2))
    return SentencePair(
        f"In a dictionary {first} comes before {second}.", f"In a dictionary {second} comes before {first}."
    )


def _make_day(drawn: Random) -> SentencePair:
    day, (told, step) = drawn.randrange(7), drawn.choice((("The day after", 1), ("The day before", -1)))
    other = step + drawn.randint(1, 6)
    return SentencePair(*(f"{told} {DAYS[day]} is {DAYS[(day + one) % 7]}." for one in (step, other)))


def share_of_right(right: float, wrong: float) -> float:
    """How sure a model is of the right one of two sentences, in [0, 1], by the log-probs of both, in nats."""
    difference = wrong - right
    if difference > 0:
        return math.exp(-difference) / (1 + math.exp(-difference))
    return 1 / (1 + math.exp(difference))


@dataclass(frozen=True, kw_only=True)
class TextComparison:
    """What plain text costs a candidate beside the base model, in nats a token; each text counts the same.

    Args:
        candidate, base: means over the texts; difference: how much more it costs the candidate.
        low, high: interval of the difference at `confidence`.
    """

    texts: int
    candidate: float
    base: float
    difference: float
    low: float
    high: float
    confidence: float

    @property
    def perplexity(self) -> float:
        return math.exp(self.candidate)

    @property
    def base_perplexity(self) -> float:
        return math.exp(self.base)

    @property
    def nats(self) -> str:
        """The difference and its interval: `+0.120 nats a token [+0.090, +0.150]`."""
        return f"{self.difference:+.3f} nats a token [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def words(self) -> str:
        return (
            f"plain text has a perplexity of {self.perplexity:.1f} where the base model has "
            f"{self.base_perplexity:.1f}: {self.nats}"
        )


def compare_texts(candidate: Sequence[float], base: Sequence[float], *, confidence: float) -> TextComparison:
    """Compare what the same texts cost two models.

    Args:
        candidate, base: (N,) nats a token of each text, N at least 2.
    Source:
        Paired differences and their standard error; the normal quantile, as the gate's other intervals.
    """
    if len(candidate) != len(base) or len(base) < 2:
        raise ValueError(f"wanted the same texts twice, at least 2; found {len(candidate)} and {len(base)}")
    differences = [mine - theirs for mine, theirs in zip(candidate, base, strict=True)]
    mean = fmean(differences)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * stdev(differences) / math.sqrt(len(differences))
    return TextComparison(
        texts=len(differences),
        candidate=fmean(candidate),
        base=fmean(base),
        difference=mean,
        low=mean - reach,
        high=mean + reach,
        confidence=confidence,
    )


@dataclass(frozen=True, kw_only=True)
class Capability:
    """What one model can do.

    Args:
        text_nats: (texts,) nats a token. shares: (pairs,) of `share_of_right`.
    """

    text_nats: Sequence[float]
    shares: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Forgetting:
    """A candidate's capability beside the base model's."""

    texts: TextComparison
    reasoning: PairedComparison

    @property
    def words(self) -> str:
        return f"{self.texts.words}; small reasoning {self.reasoning.points}"

    def find_alarms(self, *, text_margin_nats: float, reasoning_margin: float) -> list[Alarm]:
        """What was lost for sure beyond the margins; [] where nothing was."""
        found = []
        if self.texts.low > text_margin_nats:
            found.append(
                Alarm(
                    detector="forgotten_text",
                    found=self.texts.difference,
                    allowed=text_margin_nats,
                    words=f"it forgets: {self.texts.words}, {text_margin_nats:.2f} are allowed",
                    low=self.texts.low,
                    high=self.texts.high,
                )
            )
        if -self.reasoning.high > reasoning_margin:
            found.append(
                Alarm(
                    detector="forgotten_reasoning",
                    found=-self.reasoning.difference,
                    allowed=reasoning_margin,
                    words=f"it forgets: {self.reasoning.points} against the base model on small reasoning that no "
                    f"reward sees, {100 * reasoning_margin:.1f} may be lost",
                    low=-self.reasoning.high,
                    high=-self.reasoning.low,
                )
            )
        return found


def compare_capability(candidate: Capability, base: Capability, *, confidence: float) -> Forgetting:
    """Of the same texts and pairs in the same order."""
    return Forgetting(
        texts=compare_texts(candidate.text_nats, base.text_nats, confidence=confidence),
        reasoning=compare_paired(candidate.shares, base.shares, confidence=confidence),
    )


def measure_capability(
    texts: Sequence[str], pairs: Sequence[SentencePair], score: Callable[[Sequence[str]], Sequence[Sequence[float]]]
) -> Capability:
    """Ask a model.

    Args:
        score: log-probs of each text's tokens but its first, of each of some texts.
    """
    nats = [-fmean(values) for values in score(texts)]
    totals = [math.fsum(values) for values in score([sentence for pair in pairs for sentence in pair])]
    return Capability(text_nats=nats, shares=[share_of_right(*totals[at : at + 2]) for at in range(0, len(totals), 2)])
