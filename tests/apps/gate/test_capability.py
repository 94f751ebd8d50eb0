"""What a pretrained base could do besides the work is measured once; an adapter that forgets it is refused."""

from pathlib import Path
from typing import Any

import pytest

from apps.console.selectors.gate_tables import read_gate_tables
from apps.evals.models import Evaluation
from apps.workers.models import Worker
from tentalis.core.learning.capability_texts import TEXTS
from tests.apps.gate.conftest import Clerk, hold_out, judge

pytestmark = pytest.mark.django_db


@pytest.fixture
def pretrained(clerk: Worker, server: Clerk, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A clerk whose base model gives each token of a text half a nat, and its fifth version more."""

    def weigh(body: dict[str, Any], _: int) -> float:
        scores_texts = isinstance((body.get("prompt") or [0])[0], str)
        return -0.8 if scores_texts and "@v5-" in body["model"] else -0.5

    hold_out(clerk.project, 40)
    clerk.project.gate_policy |= {"capability_pairs": 20}
    clerk.project.save()
    monkeypatch.setattr(server, "_weigh", weigh)
    return clerk


def list_scored(server: Clerk) -> list[str]:
    """Names of models that were asked for plain text."""
    asked = [request.body for request in server.requests if request.path == "/v1/completions"]
    return [body["model"] for body in asked if TEXTS[0] in body["prompt"]]


def test_what_the_base_could_do_is_asked_once_and_told_with_the_verdict(
    pretrained: Worker, server: Clerk, store: Path
) -> None:
    state, verdict = judge(pretrained, 1, store)
    assert (state, verdict.outcome) == ("verified", "yes"), verdict.words
    assert "plain text has a perplexity of 1.6 where the base model has 1.6" in verdict.words
    found = verdict.details["capability"]
    assert (found["texts"]["texts"], found["reasoning"]["items"]) == (len(TEXTS), 20)
    assert len(set(list_scored(server))) == len(list_scored(server)) == 2
    judge(pretrained, 4, store)
    assert len([name for name in list_scored(server) if "@" not in name]) == 1
    kept = Evaluation.objects.filter(purpose="capability", adapter=None)
    assert {one.state for one in kept} == {"done"}
    tables = read_gate_tables(verdict.adapter, [verdict])
    assert tables.text is not None
    assert tables.text.perplexity == pytest.approx(1.65, abs=0.01)
    assert str(tables.measured[-1].title) == "Small reasoning"


def test_an_adapter_that_forgets_is_refused_though_it_works_better(pretrained: Worker, store: Path) -> None:
    pretrained.project.gate_policy |= {"text_margin_nats": 0.2}
    pretrained.project.save()
    state, verdict = judge(pretrained, 5, store)
    assert (state, verdict.outcome) == ("refused", "no")
    assert [one["detector"] for one in verdict.details["alarms"]] == ["forgotten_text"]
    assert "it forgets: plain text" in verdict.words


def test_a_server_that_scores_no_texts_is_said_to_have_measured_nothing(
    pretrained: Worker, server: Clerk, store: Path
) -> None:
    answer = server._answer

    def refuse(path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if "prompt_logprobs" in body and isinstance(body["prompt"][0], str):
            return 400, {"error": {"message": "no prompt_logprobs here", "code": "invalid"}}, {}
        return answer(path, body)

    server._answer = refuse  # type: ignore[method-assign]
    state, verdict = judge(pretrained, 1, store)
    assert state == "verified"
    assert "what it forgot was not measured: " in verdict.words
    assert "no prompt_logprobs here" in verdict.details["capability"]["untold"]
    assert read_gate_tables(verdict.adapter, [verdict]).text is None


def test_a_model_without_words_for_plain_text_is_not_asked(pretrained: Worker, server: Clerk, store: Path) -> None:
    encode = server.encode
    letters = lambda text: [token for sign in text for token in encode(sign)]  # noqa: E731
    server.encode = lambda text: (letters if text == TEXTS[0] else encode)(text)  # type: ignore[method-assign]
    _, verdict = judge(pretrained, 1, store)
    assert "capability" not in verdict.details
    assert list_scored(server) == []
