"""AI managers, one a file."""

from functools import partial

from django.conf import settings

from apps.feedback.managers.llm import LlmManager
from apps.feedback.managers.manager import Manager, ManagerWord, NoWord
from apps.feedback.managers.rule_book import RuleBookManager
from apps.inference.services import client_for

__all__ = ["Manager", "ManagerWord", "NoWord", "find_manager"]
from tentalis.core.review_policy import ReviewPolicy


def find_manager(rules: ReviewPolicy, environment: str) -> Manager:
    """The AI manager the rules name for an environment."""
    if rules.manager_for(environment) == "rule-book":
        return RuleBookManager()
    return LlmManager(partial(client_for, None), rules.model or settings.TENTALIS["LLM_MODEL"])
