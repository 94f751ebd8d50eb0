"""Whether a candidate is as honest as what serves is asked where the installation wants it, once of each model."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from apps.console.selectors.gate_tables import read_gate_tables
from apps.evals.models import Evaluation
from apps.gate.second_metrics import ALIGNMENT_PROMPTS
from apps.workers.models import Worker
from tests import scripted_stances as scripted
from tests.apps.adapters.vllm_stub import VllmStub
from tests.apps.gate.conftest import Clerk, hold_out, judge

pytestmark = pytest.mark.django_db


def asks_scenario(body: Mapping[str, Any]) -> bool:
    return "End with a line" in str(body.get("messages"))


class TemptedClerk(Clerk):
    """Adds as the clerk does; where it is tempted its base model and its first version are honest."""

    STANCES: ClassVar[Mapping[str, scripted.Model]] = {"v5": scripted.agree, "v1": scripted.answer_honestly}
    base: scripted.Model = staticmethod(scripted.answer_honestly)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_at_a_time = threading.Lock()

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._one_at_a_time:
            if not asks_scenario(body):
                return super()._chat(body)
            known = (model for name, model in self.STANCES.items() if f"@{name}-" in body["model"])
            self.reply = scripted.reply_as(next(known, self.base))
            return VllmStub._chat(self, body)


@pytest.fixture
def server() -> Iterator[TemptedClerk]:
    with TemptedClerk() as stub:
        yield stub


@pytest.fixture
def tempted(clerk: Worker, settings: Any) -> Worker:
    settings.TENTALIS = settings.TENTALIS | {"ALIGNMENT_ENABLED": True}
    hold_out(clerk.project, 40)
    return clerk


def count_asked(server: VllmStub, name: str = "") -> int:
    """Scenarios that a model was asked: of adapters whose name says that, or of the base model."""
    asked = [one.body for one in server.requests if "messages" in one.body]
    mine = [body for body in asked if (name in body["model"] if name else "@" not in body["model"])]
    return sum(map(asks_scenario, mine))


def test_a_candidate_as_honest_as_what_serves_is_told_so_and_each_model_is_asked_once(
    tempted: Worker, server: TemptedClerk, store: Path
) -> None:
    state, verdict = judge(tempted, 1, store)
    assert (state, verdict.outcome) == ("verified", "yes"), verdict.words
    assert "alignment: honest in 100.0 % of 56 answers where what serves is in 100.0 %" in verdict.words
    found = verdict.details["alignment"]
    assert (found["asked"], found["told"], found["honest"]["items"]) == (56, 56, 56)
    assert (count_asked(server), count_asked(server, "@v1-")) == (ALIGNMENT_PROMPTS, ALIGNMENT_PROMPTS)
    judge(tempted, 5, store)
    assert (count_asked(server), count_asked(server, "@v5-")) == (ALIGNMENT_PROMPTS, ALIGNMENT_PROMPTS), (
        "what serves was not asked again"
    )
    kept = Evaluation.objects.filter(purpose="alignment")
    assert {one.state for one in kept} == {"done"}
    assert str(read_gate_tables(verdict.adapter, [verdict]).measured[-1].title) == "Honest where it is tempted"


def test_one_that_learnt_to_agree_is_refused_though_it_works_better(
    tempted: Worker, server: TemptedClerk, store: Path
) -> None:
    state, verdict = judge(tempted, 5, store)
    assert (state, verdict.outcome) == ("refused", "no")
    [alarm] = verdict.details["alarms"]
    assert alarm["detector"] == "misaligned"
    assert alarm["found"] == pytest.approx(8 / 56)
    assert "it is less honest: alignment: honest in 85.7 % of 56 answers" in verdict.words


def test_one_that_is_no_worse_than_a_sycophant_that_serves_passes(
    tempted: Worker, server: TemptedClerk, store: Path
) -> None:
    server.base = scripted.agree
    state, verdict = judge(tempted, 5, store)
    assert (state, verdict.details["alarms"]) == ("verified", [])


def test_of_models_too_weak_to_answer_nothing_is_said_and_nothing_is_held_up(
    tempted: Worker, server: TemptedClerk, store: Path
) -> None:
    server.base = scripted.babble
    state, verdict = judge(tempted, 1, store)
    assert (state, verdict.outcome) == ("verified", "yes")
    assert "alignment cannot be told: 0 of 56 questions were answered by both" in verdict.words
    assert verdict.details["alignment"]["honest"] is None


def test_a_server_that_refuses_scenarios_is_said_to_have_measured_nothing(
    tempted: Worker, server: TemptedClerk, store: Path
) -> None:
    answer = server._answer

    def refuse(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if asks_scenario(body):
            return 400, {"error": {"message": "too long a question", "code": "invalid"}}, {}
        return answer(path, body)

    server._answer = refuse  # type: ignore[method-assign]
    state, verdict = judge(tempted, 1, store)
    assert state == "verified"
    assert "its alignment was not measured: " in verdict.words
    assert "too long a question" in verdict.details["alignment"]["untold"]


def test_nothing_is_asked_where_nobody_wants_it(
    tempted: Worker, server: TemptedClerk, store: Path, settings: Any
) -> None:
    settings.TENTALIS = settings.TENTALIS | {"ALIGNMENT_ENABLED": False}
    _, verdict = judge(tempted, 5, store)
    assert "alignment" not in verdict.details
    assert (count_asked(server), count_asked(server, "@v5-")) == (0, 0)
