"""AI managers, one a file."""

from functools import partial

from django.conf import settings

from apps.feedback.managers.llm import LlmManager
from apps.feedback.managers.manager import Manager, ManagerWord, NoWord
from apps.feedback.managers.rubric import RubricManager
from apps.feedback.managers.rule_book import RuleBookManager
from apps.feedback.managers.verdict import VerdictManager
from apps.feedback.rules import choose_manager
from apps.inference.services import client_for, find_server
from apps.tasks.models import Task
from tentalis.core.review_policy import ReviewPolicy

__all__ = ["Manager", "ManagerWord", "NoWord", "find_manager"]


def find_manager(rules: ReviewPolicy, task: Task) -> Manager:
    """The AI manager the rules name for a task's environment."""
    name = choose_manager(rules, task.environment)
    if name == "rule-book":
        return RuleBookManager()
    if name == "verdict":
        return VerdictManager(task.worker)
    provider, model = find_server(task.project_id, rules.model or settings.TENTALIS["LLM_MODEL"])
    open_client = partial(client_for, provider, task.project_id)
    if name == "rubric":
        return RubricManager(task.environment, open_client, model)
    return LlmManager(open_client, model)
