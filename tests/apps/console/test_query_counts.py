"""Every page's number of queries: the same however much there is to show, and written down here."""

import re
from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import BrowserSession
from apps.console.forms_settings import READERS
from tests.apps.console.growth import FIRST, grow
from tests.apps.console.test_pages import OWNERS
from tests.e2e.pages import find_manager_pages, find_own_pages, find_pages
from tests.e2e.scenery import build_scene

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ROWS = 60
QUERIES: Mapping[str, int] = {
    "dashboard": 28,  # saved views
    "search": 53,  # ten kinds, each with a time of its own
    "tasks": 20,  # names for its filters, and the time it may take
    "task": 24,
    "task_long": 21,
    "failed_task": 17,
    "task_new": 15,  # checks to choose from
    "task_import": 16,
    "feedback": 18,  # what its tokens and the reviewer's word are worth
    "reviews": 24,  # names for its filters, and the time it may take
    "review": 18,
    "review_skip": 10,
    "proposals": 12,
    "proposal": 10,
    "proposals_decided": 10,
    "proposal_rules": 10,
    "quality": 20,  # judges and their probes, who favours whom
    "manager_run": 13,
    "manager_adapter": 13,
    "rater": 14,
    "runs": 21,  # the curves of a worker's line
    "returns": 22,
    "run": 20,  # whose word its tasks were judged by
    "failed_run": 18,
    "run_refused": 18,
    "run_alarmed": 18,
    "run_waiting": 18,
    "run_untaken": 18,
    "run_paused": 18,
    "run_scorer": 13,
    "adapters": 21,
    "adapter": 28,  # corrections before it, and which still hold
    "adapter_compared": 29,
    "adapter_people": 14,
    "adapter_moved": 13,
    "feedback_trace": 21,
    "my_feedback": 22,  # saved views, names, and the time it may take
    "task_versions": 13,
    "workers": 13,
    "worker": 19,  # the newest adapter's base
    "providers": 12,
    "provider": 13,
    "sessions": 13,
    "session": 18,  # its tree
    "exchange": 20,
    "environments": 10,
    "environment": 13,
    "repo_tasks": 10,
    "tasksets": 11,
    "taskset": 14,
    "taskset_new": 9,
    "taskset_add": 11,
    "taskset_split": 10,
    "taskset_freeze": 10,
    "item_delete": 11,
    "task_keep": 11,
    "checks": 11,
    "check_delete": 13,
    "evaluations": 10,
    "evaluation_new": 12,
    "evaluation": 16,  # what people say of its answers, and its items
    "evaluation_beside": 18,
    "evaluation_items": 15,
    "evaluation_alignment": 16,
    "evaluation_try": 16,  # the item's other tries, the items beside it, people's grades, who may read what was checked
    "evaluation_try_keep": 12,
    "feedback_keep": 12,
    "benchmarks": 10,
    "catalogue": 10,
    "benchmark": 13,  # its runs and its courses
    "leaderboard": 13,
    "benchmark_install": 9,
    "benchmark_run": 12,
    "courses": 10,
    "course": 13,
    "course_new": 11,
    "experiments": 10,
    "experiment_new": 14,  # the evaluations to choose from, twice
    "experiment": 20,
    "blockers": 19,  # what waits for a server, workers without base weights
    "glossary": 9,
    "dead_letters": 19,  # saved views, names, and the time it may take
    "health": 17,
    "audit": 13,
    "exports": 18,  # why a set is empty, and the workers it is narrowed to
    "members": 11,  # those who are invited
    **dict.fromkeys((f"settings_{section}" for section in ("general", *READERS, "weight_profiles")), 12),
    "tokens": 18,
    "token_limits": 11,
    "webhooks": 12,
    "webhook": 13,
    "bulk_act": 22,
    "review_bulk_new": 16,
    "review_bulk": 12,
    "review_reveal": 24,
    "review_offer": 13,
    "review_pair": 18,
    "canary_stop": 11,
    "review_compare": 12,
    "review_appeal": 11,
    "rater_out": 13,
    "adapter_promote": 27,  # the shadow test that it ends
    "adapter_canary": 11,
    "adapter_suspected": 28,
    "adapter_shadow": 11,
    "shadow_stop": 10,
    "adapter_suspect": 10,
    "adapter_release": 10,
    "roll_back": 12,  # the shadow test that it ends
    "task_cancel": 10,
    "run_cancel": 11,
    "run_describe": 11,
    "train": 11,
    "run_retry": 12,
    "token_revoke": 11,
    "forget": 11,
    "worker_new": 13,
    "worker_change": 14,
    "ensemble_new": 12,
    "ensemble_change": 12,
    "ensemble_remove": 12,
    "provider_new": 10,
    "provider_change": 10,
    "attempt_compare": 12,
    "run_compare": 20,
    "task_from_sessions": 17,
    "connect": 14,
    "who_judges": 13,  # reviews that stay open
    "projects": 4,
    "preferences": 3,
    "signing_in": 8,
    "invitations": 4,
    "keys": 3,
    "admin": 12,
    "admin_audit": 16,
}
"""Page -> statements, session and user among them. Fewer is fine; more takes a new number here, and a reason.

Above 30 is the search alone, which looks for each kind of thing within a time of its own that is set and taken back.
"""

ONE_MORE = {"proposals"}
"""Counts what waits only where that is more than the page holds."""

MENU_ENTRY = re.compile(r'<nav class="side".*?aria-current="page".*?</nav>', re.DOTALL)


def count_queries(client: Client, pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Page -> its statements, where an earlier look has filled what is kept."""
    asked = {}
    for name, path in pages.items():
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200, f"{name}: {path}"
        asked[name] = [str(row["sql"]) for row in captured.captured_queries]
    return asked


def test_pages_cost_the_same_with_sixty_rows_more_of_everything() -> None:
    scene = build_scene(updates=3)
    client = Client()
    client.force_login(scene.alice)
    everybodys = find_pages(scene)
    of_project = everybodys | find_manager_pages(scene)
    named = of_project | find_own_pages()
    answers = {name: client.get(path) for name, path in named.items()}
    pages = {name: path for name, path in named.items() if answers[name].status_code == 200}
    assert {name: answers[name].status_code for name in everybodys.keys() - pages.keys()} == dict.fromkeys(OWNERS, 403)
    unmarked = {
        name for name in of_project.keys() & pages.keys() if not MENU_ENTRY.search(answers[name].content.decode())
    }
    assert unmarked == {"glossary", "search"}, "the menu says of every other page where one is"
    noted = BrowserSession.objects.update(seen_at=timezone.now() + timedelta(days=1))  # its use is, once in a while
    assert noted == 1
    grow(scene, 1)
    few = count_queries(client, pages)
    grow(scene, ROWS, first=FIRST + 1)
    many = count_queries(client, pages)
    grown = {name for name in pages if len(many[name]) > len(few[name]) + (name in ONE_MORE)}
    told = "\n".join(f"{name}: {sql[:160]}" for name in grown for sql in find_new(few[name], many[name]))
    assert grown == set(), told
    counts = {name: len(sqls) for name, sqls in many.items()}
    more = {name: count for name, count in counts.items() if count > QUERIES.get(name, 0)}
    assert more == {}, f"pages ask more than is written down, or nothing is written down of them: {more}"
    assert set(QUERIES) <= set(pages), "a page is gone or does not answer, and its number stands here"
    assert {name for name, count in QUERIES.items() if count > 30} == {"search"}


def find_new(few: list[str], many: list[str]) -> list[str]:
    """Statements that came more often than before, by their first words."""
    left = [sql[:160] for sql in few]
    new = []
    for sql in many:
        if sql[:160] in left:
            left.remove(sql[:160])
        else:
            new.append(sql)
    return new
