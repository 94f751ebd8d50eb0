"""How answers are graded anew: by a grader, a scorer, checks, or a rubric that a world or a judge applies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self

from apps.accounts.models import Project
from apps.base.errors import BadInputError
from apps.checks.graders import ATTEMPTS_AT_ONCE, SCORERS, Graders, convene_graders, find_asking, open_grader
from apps.checks.language import read_checks, run_parts
from apps.checks.results import CheckError, join_all
from apps.worlds.registry import find_world
from apps.worlds.verifying import open_context
from tentalis.core.grading import UngradedError
from tentalis.core.meta import judge_items
from tentalis.core.worlds import AttemptDraft, ItemRubric, Verification
from tentalis.outbound.scopes import ScopedThreadPool
from tentalis.plugins import REGISTRIES

KINDS = ("grader", "scorer", "checks", "rubric")
MAX_RUBRIC_CHARS = 20_000


class Subject(NamedTuple):
    """An answer that is there.

    Args:
        old: its grade so far; None: it has none. verification: what its world found, as stored.
    """

    pk: int
    environment: str
    prompt: str
    reference: Any
    checks: Any
    draft: AttemptDraft
    old: float | None
    verification: Mapping[str, Any] | None = None


class NewGrade(NamedTuple):
    """Args: value: in [0, 1]; None: there is none, for `cause`. details: what each check said."""

    value: float | None
    cause: str = ""
    details: Sequence[Any] = ()
    graders: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class GradingRule:
    """One of these.

    Args:
        grader: name, maybe @version, which must be the installed one: it grades by the reference that the item's own
            grader has, or the item itself; options: of it.
        scorer: name. checks: a check, or a list of them.
        rubric: applied by the world that reads rubrics by itself, else by the judge with its votes; constitution: what
            the judge holds beside it; "" for the project's.
    """

    grader: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    scorer: str = ""
    checks: Any = None
    rubric: str = ""
    constitution: str = ""

    def __post_init__(self) -> None:
        told = [name for name in KINDS if getattr(self, name)]
        if len(told) != 1:
            raise BadInputError.at("rule", f"wanted one of {', '.join(KINDS)}, found {', '.join(told) or 'none'}")
        if self.options and not self.grader:
            raise BadInputError.at("options", "wanted them with a grader alone")
        if self.constitution and not self.rubric:
            raise BadInputError.at("constitution", "wanted it with a rubric, which the judge reads beside it")
        if len(self.rubric) > MAX_RUBRIC_CHARS or len(self.constitution) > MAX_RUBRIC_CHARS:
            raise BadInputError.at("rubric", f"wanted at most {MAX_RUBRIC_CHARS:,} characters")
        if self.grader:
            _require_installed(self.grader)
        if self.scorer and REGISTRIES[SCORERS].get(self.scorer) is None:
            raise BadInputError.at("scorer", REGISTRIES[SCORERS].refuse(self.scorer))
        if self.checks:
            try:
                read_checks(self.checks)
            except CheckError as error:
                raise BadInputError.at("checks", str(error)) from None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}

    def grade(self, project: Project, subjects: Sequence[Subject]) -> list[NewGrade]:
        """In order; those that ask a model, some at once. Whoever is asked of what goes wrong gives no grade."""
        if self.constitution:
            project.constitution = self.constitution  # of this object alone: nothing is saved
        own = {one.environment: find_world(one.environment).rubric for one in subjects} if self.rubric else {}
        weights = {name: self._weigh(rubric) for name, rubric in own.items() if rubric is not None}
        specs = [None if one.environment in weights else self._list_checks(one) for one in subjects]
        graders = convene_graders(project, specs)
        work = partial(self._grade, graders, own, weights)
        if graders is None or not graders.voters:
            return list(map(work, subjects, specs))
        with ScopedThreadPool(ATTEMPTS_AT_ONCE) as pool:
            return list(pool.map(work, subjects, specs))

    def _grade(
        self,
        graders: Graders | None,
        own: Mapping[str, ItemRubric | None],
        weights: Mapping[str, Mapping[str, float] | str],
        subject: Subject,
        spec: Any,
    ) -> NewGrade:
        if (rubric := own.get(subject.environment)) is not None and spec is None:
            return _apply_rubric(rubric, weights[subject.environment], subject)
        draft = subject.draft
        if draft.error:
            return NewGrade(0.0, details=[{"check": "answer", "words": f"there is no answer: {draft.error}"[:300]}])
        try:
            checks = read_checks(spec)
        except CheckError as error:
            return NewGrade(None, f"it cannot be graded by this: {error}"[:300])
        ask = None
        if graders is not None:
            context = open_context(
                graders,
                environment=subject.environment,
                prompt=subject.prompt,
                reference=subject.reference,
                draft=draft,
                verification=None if subject.verification is None else Verification.from_json(subject.verification),
            )
            ask = partial(graders.ask, context=context)
        said = run_parts(checks, draft.answer, ask)
        joined = join_all("all", said)
        names = sorted({one.grader for one in said if one.grader})
        details = [one.to_json() for one in said]
        if joined.share is None:
            return NewGrade(
                None, ("; ".join(one.words for one in said if one.share is None) or "?")[:300], details, names
            )
        return NewGrade(joined.share, "", details, names)

    def _weigh(self, rubric: ItemRubric) -> Mapping[str, float] | str:
        try:
            return rubric.weigh(self.rubric)
        except ValueError as error:
            return f"the rubric cannot be read: {error}"

    def _list_checks(self, subject: Subject) -> list[Any]:
        if self.checks:
            return list(self.checks) if isinstance(self.checks, list) else [self.checks]
        if self.scorer:
            return [{"check": "scorer", "name": self.scorer}]
        if self.rubric:
            return [{"check": "judge", "rubric": self.rubric}]
        name = self.grader.partition("@")[0]
        known = next((one for one in find_asking(subject.checks) if one["check"] == "grader"), {})
        options = self.options or (known.get("options") if known.get("name") == name else None) or {}
        reference = known.get("reference", subject.reference)
        return [{"check": "grader", "name": name, "reference": reference, "options": dict(options)}]


def _require_installed(asked: str) -> None:
    name, _, version = asked.partition("@")
    try:
        installed = open_grader(name).version
    except UngradedError as error:
        raise BadInputError.at("grader", str(error)) from None
    if version not in ("", installed):
        raise BadInputError.at("grader", f"wanted {name}@{installed}, which is installed, found {asked[:80]}")


def _apply_rubric(rubric: ItemRubric, weights: Mapping[str, float] | str, subject: Subject) -> NewGrade:
    if isinstance(weights, str):
        return NewGrade(None, weights[:300])
    if subject.draft.error:
        return NewGrade(0.0, details=[{"check": "answer", "words": "there is no answer"}])
    items = rubric.find(subject.prompt, [(step.kind, step.text) for step in subject.draft.steps])
    found = {name: value for name, value in items.items() if value}
    return NewGrade(judge_items(weights, items), "", [{"check": "rubric", "items": found}], ["rubric"])
