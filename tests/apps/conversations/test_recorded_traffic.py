"""What programs ask is nobody's verdict, and what a person says among it is heard of the answer they saw."""

import random

import pytest

from apps.accounts.models import Project
from apps.conversations.models import Turn
from apps.inference.models import Exchange, Session
from tentalis.core.conversations.signals import Signal, read_reaction
from tentalis.core.conversations.turns import Began
from tests.apps.conversations.replay import Found, Replay
from tests.apps.conversations.traffic import MACHINES, PEOPLE, Case, Send
from tests.apps.conversations.traffic.sending import ask, user
from tests.apps.conversations.traffic.wording import draw_correction

pytestmark = pytest.mark.django_db(transaction=True)


def learn(project: Project, cases: dict[str, int] | None = None, **policy: object) -> Found:
    known = {**MACHINES, **PEOPLE}
    with Replay(project, **policy) as replay:
        for number, (kind, count) in enumerate((cases or dict.fromkeys(known, 1)).items()):
            for place in range(count):
                replay.send(kind, known[kind], random.Random(1_000 * number + place))
        replay.learn(random.Random(7))
        return replay.find()


def test_the_corrections_that_are_planted_are_some_that_the_rules_know() -> None:
    said = {draw_correction(random.Random(seed), "number 7") for seed in range(400)}
    assert len(said) > 10
    for words in said:
        found = read_reaction(asked="How many?", reaction=words, began=Began.NEXT)
        assert isinstance(found, Signal), words
        assert found.score == 0.0, words


def test_every_recorded_kind_of_traffic_teaches_what_people_said_and_nothing_else(project: Project) -> None:
    found = learn(project)
    assert found.lost == []
    assert found.kept == found.planted == len(PEOPLE)
    assert {kind: count for kind, count in found.false.items() if count} == {}


def test_people_who_open_alike_share_no_session(project: Project) -> None:
    found = learn(project, {"two_people_who_open_alike": 3, "eval_loop": 1})
    assert (found.kept, found.lost) == (3, [])
    evaluated = Exchange.objects.count() - 4 * 3
    assert Session.objects.filter(key__startswith="fp-").count() == 2 * 3 + evaluated


def test_a_project_may_say_that_nobody_speaks_or_only_in_named_sessions(project: Project) -> None:
    found = learn(project, {"person_alone": 1, "person_and_subagent": 1}, people="named")
    assert (found.kept, found.planted) == (1, 2)
    reason = "by the project's policy nobody speaks here who could judge it"
    assert Turn.objects.filter(reason=reason, session__key__startswith="fp-").exists()


def test_without_a_pace_a_program_is_as_good_as_a_person(project: Project) -> None:
    """The counting counts: what teaches falsely is found."""
    found = learn(project, {"doubt_at_once": 1}, fastest_s=0)
    assert found.false["doubt_at_once"] == Exchange.objects.count() - 1 > 0


def test_an_aside_that_comes_at_once_takes_no_turn_away_from_its_person(project: Project) -> None:
    """A client asks on by itself within the second, and then its user corrects the answer before that."""

    def aside(dice: random.Random) -> Case:
        key, talk = {"X-Session-Id": "one"}, [user("Which lamps are green?")]
        answer = yield Send(0.0, ask(*talk), "Those of type 7.", headers=key)
        yield Send(1.5, ask(*talk, answer.message, user("Give three follow-ups as JSON.")), "[]", headers=key)
        yield Send(60.0, ask(*talk, answer.message, user("No, it should be type 8.")), "Noted.", headers=key)
        return [answer.exchange]

    with Replay(project) as replay:
        replay.send("aside", aside, random.Random(1))
        replay.learn(random.Random(3))
        found = replay.find()
    assert (found.kept, found.lost, found.false) == (1, [], {"aside": 0})
