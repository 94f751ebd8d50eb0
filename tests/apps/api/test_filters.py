"""A filter that would filter nothing is refused by name."""

import pytest

from apps.accounts.models import Project
from tests.edges.caller import Caller


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("workers?is_active=yes", "is_active"),
        ("workers?is_active=1", "is_active"),
        ("workers?is_active=", "is_active"),
        ("workers?kind=", "kind"),
        ("workers?kind=robot", "kind"),
        ("tasks?parent=", "parent"),
        ("tasks?parent=1.5", "parent"),
        ("tasks?state=queued&state=done", "state"),
        ("tasks?sate=queued", "sate"),
        ("skills?version=one", "version"),
        ("exchanges?public_id=7", "public_id"),
        ("tasks?worker=%00", "worker"),
        ("reviews?text=!!!", "text"),
        ("reviews?min_score=2", "min_score"),
        ("reviews?since=yesterday", "since"),
        ("tasks?until=100%25+sure", "until"),
        ("tasks?text=%25!", "text"),
        ("feedback?retracted=perhaps", "retracted"),
        ("feedback?sort=colour", "sort"),
        ("dead-letters?kind=moon", "kind"),
        ("dead-letters?wroker=echo", "wroker"),
    ],
)
def test_what_would_filter_nothing_is_refused_by_name(
    as_alice: Caller, project: Project, path: str, field: str
) -> None:
    answer = as_alice.get(path)
    assert answer.status == 400, answer
    assert list(answer.body["errors"]) == [field]


def test_what_filters_does(as_alice: Caller, project: Project) -> None:
    for path in (
        "workers?is_active=true",
        "workers?kind=echo&name=x",
        "tasks?state=queued",
        "tasks?worker=",
        "reviews?min_priority=0.5",
        "reviews?text=brass&reviewer=bob&sort=-priority",
        "feedback?text=dear&worker=echo&retracted=false&sort=score",
        "dead-letters?kind=work&text=no&worker=echo&since=2026-01-01&sort=tries",
    ):
        assert as_alice.get(path).body["results"] == []
