"""Judges that are known to be fair or not, for probes to find out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tentalis.core.scoring.judge_probes import find_own_fault
from tentalis.core.scoring.probe_items import ITEMS, ProbeItem

Taste = Callable[[ProbeItem, str, str], str]
"""Which of two answers to an item is better: first, second or tie."""
WITH_CARE = "As I like to put it: "
"""How a judge begins its own answers."""


def find_item(text: str) -> ProbeItem:
    return next(one for one in ITEMS if one.prompt in text)


def is_right(item: ProbeItem, answer: str) -> bool:
    """Whether it says nothing wrong, whatever its form."""
    return item.wrong.split(". ", maxsplit=1)[0] not in answer


def be_fair(item: ProbeItem, first: str, second: str) -> str:
    rights = is_right(item, first), is_right(item, second)
    return {(True, False): "first", (False, True): "second"}.get(rights, "tie")


def like(wanted: Callable[[str], bool]) -> Taste:
    """One that takes what has a trait, where just one of them has, and is fair else."""

    def choose(item: ProbeItem, first: str, second: str) -> str:
        if wanted(first) == wanted(second):
            return be_fair(item, first, second)
        return "first" if wanted(first) else "second"

    return choose


def like_longer(item: ProbeItem, first: str, second: str) -> str:
    """Where one is much longer, it wins, whatever it says."""
    if max(len(first), len(second)) < 1.5 * min(len(first), len(second)):
        return be_fair(item, first, second)
    return "first" if len(first) > len(second) else "second"


def invert(item: ProbeItem, first: str, second: str) -> str:
    return {"first": "second", "second": "first"}.get(be_fair(item, first, second), "tie")


TASTES: dict[str, Taste] = {
    "fair": be_fair,
    "first": lambda item, first, second: "first",
    "second": lambda item, first, second: "second",
    "tie": lambda item, first, second: "tie",
    "inverted": invert,
    "longer": like_longer,
    "markdown": like(lambda text: text.startswith("## ")),
    "bullets": like(lambda text: text.startswith("- ")),
    "json": like(lambda text: text.startswith("{")),
    "no markdown": like(lambda text: not text.startswith("## ")),
    "no json": like(lambda text: not text.startswith("{")),
    "own": like(lambda text: text.startswith(WITH_CARE)),
}


@dataclass
class ScriptedJudge:
    """Replies as its taste is.

    Args:
        score_right: what it gives a right answer; a wrong one gets 0.1.
        knows: whether its own answers are right.
    """

    taste: Taste = be_fair
    score_right: float = 0.8
    knows: bool = True

    def reply(self, messages: Sequence[Any]) -> str:
        """What it says to a question of a probe; of a review or a scorer's question that the work is right."""
        asked = messages[-1]["content"]
        if "<<<FIRST ANSWER" in asked:
            first, second = (read_block(asked, name) for name in ("FIRST ANSWER", "SECOND ANSWER"))
            return json.dumps({"better": self.taste(find_item(asked), first, second), "reason": "so"})
        if "<<<ANSWER" in asked:
            known = next((one for one in ITEMS if one.prompt in asked), None)
            is_good = known is None or is_right(known, read_block(asked, "ANSWER"))
            steps = [{"index": place, "score": 0.5, "reason": "so"} for place in range(asked.count("<<<STEP "))]
            score = self.score_right if is_good else 0.1
            return json.dumps({"steps": steps, "overall": score, "reason": "so"})
        item = find_item(asked)
        return f"{WITH_CARE}{item.other if self.knows else item.wrong}"

    def reply_to_json(self, prompt: str, index: int) -> str:
        """As a `FakeModelServer` asks."""
        return self.reply(json.loads(prompt))


def read_block(text: str, name: str) -> str:
    inner = text.split(f"<<<{name} ", maxsplit=1)[1].split("\n", maxsplit=1)[1]
    return inner.split(f" {name}>>>", maxsplit=1)[0].rsplit("\n", maxsplit=1)[0]


def answers_of(judge: ScriptedJudge) -> dict[str, list[list[Any]]]:
    """What it says to all questions of a probe, as `apps.judges` would keep it."""
    from tentalis.core.scoring.judge_probes import OWN, PAIRS, SCORES, ask_own, ask_pair, ask_score
    from tentalis.core.scoring.judging import parse_judgement, parse_preference

    kept: dict[str, list[list[Any]]] = {
        OWN: [[judge.reply([{"content": ask_own(item)}]), ""] for item in ITEMS],
        SCORES: [],
    }
    for item, (own, _) in zip(ITEMS, kept[OWN], strict=True):
        for probe in PAIRS:
            fault = find_own_fault(item, own) if probe == "self" else ""
            asked = [] if fault else ask_pair(probe, item, own)
            said: list[Any] = [parse_preference(judge.reply(one.messages)) for one in asked]
            kept.setdefault(probe, []).append(said or [fault])
        scores: list[Any] = [
            parse_judgement(judge.reply(ask_score(item, answer).messages), step_count=0)
            for answer in (item.right, item.wrong)
        ]
        kept[SCORES].append([one.overall for one in scores])
    return kept
