"""A package with one of nearly everything, as its author would write it, which holds to what is asked."""

import json
import urllib.request
from typing import Any

from tentalis.core.alarms import Rule
from tentalis.core.grading import GradedTask, Grader
from tentalis.core.scoring.judging import Decision
from tentalis.core.scoring.protocol import AttemptContext, ScorerResult
from tentalis.core.supervision import ProposedAction


def grade(task: GradedTask, episode: AttemptContext) -> bool:
    return episode.answer is not None and episode.answer.strip() == task.reference


SAME = Grader(name="same", version="1", about="The very words.", grade=grade)
QUIET = Rule("quiet", 60, lambda now: iter(()))


class LengthScorer:
    name = "length"

    def score(self, context: AttemptContext) -> ScorerResult:
        return ScorerResult(scorer=self.name, value=float(len(context.text) < 100))


class Careful:
    name = "careful"

    def decide(self, action: ProposedAction) -> Decision:
        return Decision("unsure", "somebody should look")


class Parrot:
    """Says what its model says."""

    label = "Parrot"

    def run(self, task: Any, config: Any) -> None:
        body = {"model": config.model, "messages": list(task.messages), "stream": config.stream}
        headers = {"Authorization": f"Bearer {config.api_key}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{config.base_url}/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            answer.read()


class Forgetful(Parrot):
    """Keeps what it was told before, and asks as somebody else."""

    told: list[Any] = []

    def run(self, task: Any, config: Any) -> None:
        self.told.extend(task.messages)
        super().run(type(task)(task.prompt, "", list(self.told)), config)
