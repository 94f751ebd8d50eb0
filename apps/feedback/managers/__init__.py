"""AI managers, one a file, and those that other packages add."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apps.accounts.models import Project
from apps.feedback.managers.llm import LlmManager
from apps.feedback.managers.manager import Manager, ManagerWord, MissingManager, NoWord
from apps.feedback.managers.rubric import RubricManager
from apps.feedback.managers.rule_book import RuleBookManager
from apps.feedback.managers.verdict import VerdictManager
from apps.inference.judges import find_judging_model
from apps.inference.services import client_for
from apps.judges.selectors import find_bar
from apps.tasks.models import Task
from apps.worlds.registry import find_world
from tentalis.core.review_policy import ReviewPolicy
from tentalis.plugins import Registry

__all__ = ["MANAGERS", "Manager", "ManagerWord", "NoWord", "choose_manager", "find_judge", "find_manager"]

MakeManager = Callable[[ReviewPolicy, Task], Manager]


def choose_manager(rules: ReviewPolicy, environment: str) -> str:
    """Which AI manager reviews there: the policy's, else the environment's own."""
    return rules.ai_manager or find_world(environment).manager


def find_manager(rules: ReviewPolicy, task: Task) -> Manager:
    """The AI manager the rules name for a task's environment; of one that is here no more, one that says so."""
    name = choose_manager(rules, task.environment)
    make = MANAGERS.get(name)
    return make(rules, task) if make else MissingManager(name)


def _make_rubric(rules: ReviewPolicy, task: Task) -> Manager:
    judge = find_judge(rules, task.project)
    return RubricManager(task.environment, judge)


def find_judge(rules: ReviewPolicy, project: Project) -> LlmManager:
    """The model that judges where the rules want one: theirs, else the installation's."""
    provider, model = find_judging_model(project.pk, rules.model)
    return LlmManager(
        open_client=partial(client_for, provider, project.pk),
        model=model,
        find_bar=partial(find_bar, project, provider, model),
        provider_id=provider.pk if provider else None,
    )


def _list_own() -> Mapping[str, MakeManager]:
    return {
        "rule-book": lambda rules, task: RuleBookManager(),
        "llm": lambda rules, task: find_judge(rules, task.project),
        "rubric": _make_rubric,
        "verdict": lambda rules, task: VerdictManager(task.worker),
    }


def _read_manager(name: str, found: Any) -> MakeManager:
    manager: Any = found() if inspect.isclass(found) else found
    if manager.name != name or not manager.author or not callable(manager.review):
        raise ValueError(f"wanted an AI manager that is named as its entry point, {name!r}, found {manager.name!r}")
    return lambda rules, task: manager


MANAGERS: Final = Registry[MakeManager]("tentalis.managers", "AI manager", _list_own, _read_manager)
"""Each makes the manager of a task; one that another package adds is the same for every task."""
