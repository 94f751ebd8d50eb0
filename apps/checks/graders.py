"""Who settles the parts of a check that no plain rule can: a grader or a scorer of the installation, or a judge with a
rubric."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from apps.accounts.models import Project
from apps.base.errors import TentalisError
from apps.checks.results import AskedPart, Said
from apps.inference.errors import raise_if_paced
from apps.inference.judges import VOTES, JudgeScorer, Voter, find_judging_model, find_voter
from apps.judges.models import tell_judge
from apps.judges.selectors import find_training_voter
from tentalis.core.canon import canonical_json, content_hash
from tentalis.core.grading import GradedTask, Grader, UngradedError
from tentalis.core.scoring.judging import find_prompt_version
from tentalis.core.scoring.protocol import AttemptContext, Scorer, ScoringError, Unscored
from tentalis.outbound.scopes import ScopedThreadPool
from tentalis.plugins import GRADERS, REGISTRIES

SCORERS: Final = "tentalis.scorers"
"""The registry of scorers, which a floor above fills."""
ASKED_KINDS: Final = ("grader", "scorer", "judge")
MOST_REPLIED: Final = 1_024
"""Tokens that a judge replies to a grader."""
NOBODY_ASKED: Final = Unscored("it asks no model")
ATTEMPTS_AT_ONCE: Final = 8
"""Answers that models are asked about at one time."""


@dataclass(frozen=True)
class Graders:
    """Those that checks of a project ask.

    Args:
        asked: the parts that ask.
        voters: model, as a check names it -> who is asked; or why nobody is.
    """

    project: Project
    asked: frozenset[AskedPart]
    voters: Mapping[str, Voter | Unscored]

    @property
    def judges(self) -> list[dict[str, Any]]:
        """The models among them, whether they may be asked or not, as `tell_judge` tells them."""
        found = (find_judging_model(self.project.pk, model) for model in sorted(self.voters))
        return [tell_judge(provider.pk if provider else None, model) for provider, model in found if model]

    @property
    def names(self) -> list[str]:
        """All of them, each once, with their versions."""
        return sorted({self.name(one) for one in self.asked})

    def ask(self, asked: AskedPart, context: AttemptContext) -> Said:
        """What one says of an answer. Raises whatever goes wrong in it."""
        if asked.by == "grader":
            return self._grade(asked, context)
        voter = self.voters.get(asked.model, NOBODY_ASKED)
        if isinstance(voter, Unscored) and asks_model(asked):
            return Said(None, voter.reason, self.name(asked))
        if asked.rubric:
            context = replace(context, rubric=asked.rubric)
        with ScopedThreadPool(VOTES) as pool:
            found = self._open(asked, None if isinstance(voter, Unscored) else voter, pool).score(context)
        if isinstance(found.value, Unscored):
            return Said(None, found.value.reason, self.name(asked))
        return Said(float(found.value), f"{asked.label} gives it {found.value:.2f}", self.name(asked))

    def name(self, asked: AskedPart) -> str:
        """Who it is, with the version of all that its word depends on."""
        if asked.by == "grader":
            return self._name_grader(asked)
        if asked.by == "judge":
            rules = content_hash([asked.rubric or self.project.rubric, self.project.constitution])[:12]
            return f"judge {self._name_model(asked)}, prompt {find_prompt_version('prm')}, rubric {rules}"
        told = f"{asked.label} of {_find_package(SCORERS, asked.name) or 'tentalis ' + version('tentalis')}"
        if not asks_model(asked):
            return told
        rules = content_hash([self.project.rubric, self.project.constitution])[:12]
        return f"{told}, {self._name_model(asked)}, rubric {rules}"

    def _name_grader(self, asked: AskedPart) -> str:
        grader: Grader | None = REGISTRIES[GRADERS].get(asked.name)
        if grader is None:
            return f"{asked.label}, which is not installed"
        package = _find_package(GRADERS, asked.name)
        told = f"{asked.label}@{grader.version}" + (f" of {package}" if package else "")
        return f"{told}, {self._name_model(asked)}" if grader.asks else told

    def _name_model(self, asked: AskedPart) -> str:
        voter = self.voters.get(asked.model, NOBODY_ASKED)
        return "no model" if isinstance(voter, Unscored) else voter.model

    def _grade(self, asked: AskedPart, context: AttemptContext) -> Said:
        grader, given = open_grader(asked.name), json.loads(asked.given)
        voter = self.voters.get(asked.model, NOBODY_ASKED)
        task = GradedTask(prompt=context.prompt, ask=partial(_ask_judge, voter) if grader.asks else None, **given)
        grade = grader.run(task, context)
        details = {"correct": grade.is_correct, "signals": dict(grade.signals), "evidence": dict(grade.evidence)}
        told = {name: value for name, value in details.items() if value not in (None, {})}
        words = grade.cause or f"{asked.label} gives it {grade.value:.2f}"
        return Said(grade.value, words, self.name(asked), told, grade.is_untold)

    def _open(self, asked: AskedPart, voter: Voter | None, pool: ScopedThreadPool) -> Scorer:
        if asked.by == "judge":
            return JudgeScorer("judge", "prm", voter, pool)
        scorer: Any = REGISTRIES[SCORERS].get(asked.name)
        if scorer is None:
            raise ScoringError(REGISTRIES[SCORERS].refuse(asked.name))
        opened: Scorer = scorer.convene(voter, pool) if hasattr(scorer, "convene") else scorer
        return opened


def convene_graders(project: Project, checks: Any, *, trains: bool = False) -> Graders | None:
    """Those that are asked by checks, as these are stored; None where they ask nobody.

    What they cost is charged to whatever is charged while they are convened.

    Args:
        trains: what they say is learnt from: a judge that is below its bar is not asked.
    """
    if not (asked := frozenset(find_asked(checks))):
        return None
    models = {one.model for one in asked if asks_model(one)}
    return Graders(project, asked, {model: _find_voter(project, model, trains=trains) for model in models})


def asks_model(asked: AskedPart) -> bool:
    """Whether its word is a model's, which is waited and paid for."""
    if asked.by == "grader":
        grader: Grader | None = REGISTRIES[GRADERS].get(asked.name)
        return grader is not None and grader.asks
    return asked.by == "judge" or hasattr(REGISTRIES[SCORERS].get(asked.name), "convene")


def reads_silence(asked: AskedPart) -> bool:
    """Whether it is asked about no answer too."""
    grader: Grader | None = REGISTRIES[GRADERS].get(asked.name) if asked.by == "grader" else None
    return grader is not None and grader.reads_silence


def takes_time(asked: AskedPart) -> bool:
    """Whether an answer waits for it: for a model, or for what its grader runs."""
    grader: Grader | None = REGISTRIES[GRADERS].get(asked.name) if asked.by == "grader" else None
    return asks_model(asked) or (grader is not None and not grader.is_pure)


def find_asked(checks: Any) -> Iterator[AskedPart]:
    """The parts of checks that ask somebody, wherever they stand in them."""
    return map(open_asked, find_asking(checks))


def find_asking(checks: Any) -> Iterator[Mapping[str, Any]]:
    """The same as they are stored. They are not read further."""
    if isinstance(checks, Mapping):
        if checks.get("check") in ASKED_KINDS:
            yield checks
        else:
            for inner in checks.values():
                yield from find_asking(inner)
    elif isinstance(checks, list | tuple):
        for inner in checks:
            yield from find_asking(inner)


def open_asked(spec: Mapping[str, Any]) -> AskedPart:
    """The part of a check that asks somebody, as it is stored."""
    told: dict[str, Any] = {name: str(spec.get(name) or "") for name in ("name", "rubric", "model")}
    by = str(spec["check"])
    if by != "grader":
        return AskedPart(by, **told)
    given = canonical_json({"reference": spec.get("reference"), "options": spec.get("options") or {}})
    return AskedPart(by, name=told["name"], model=told["model"], given=given)


def open_grader(name: str) -> Grader:
    """The grader of that name. Raises UngradedError: there is none."""
    grader: Grader | None = REGISTRIES[GRADERS].get(name)
    if grader is None:
        raise UngradedError(REGISTRIES[GRADERS].refuse(name))
    return grader


def _find_package(group: str, name: str) -> str:
    """The package that it comes of, and its version; "" of what is ours."""
    return next((one.package for one in REGISTRIES[group].plugins if one.name == name and not one.error), "")


def _ask_judge(voter: Voter | Unscored, question: str) -> str:
    if isinstance(voter, Unscored):
        raise UngradedError(voter.reason)
    said = [{"role": "user", "content": question}]
    try:
        answers = voter.client.chat(said, model=voter.model, max_tokens=MOST_REPLIED, temperature=0.0, seed=0)
    except TentalisError as error:
        raise_if_paced(error)
        raise UngradedError(f"the judge could not be asked: {error}"[:500]) from None
    return str(answers[0].text)


def _find_voter(project: Project, model: str, *, trains: bool) -> Voter | Unscored:
    find = find_training_voter if trains else find_voter
    try:
        return find(project, model) or Unscored("no model is configured to judge it")
    except TentalisError as error:
        return Unscored(f"its model cannot be asked: {error}"[:500])
