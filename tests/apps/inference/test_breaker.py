"""A server that stays silent is left alone, by the project that met it, and tried again by one at a time."""

import pytest

from apps.base.errors import TentalisError
from apps.inference.breaker import FIRST_REST_S, LONGEST_REST_S, SILENCES, Breaker, breaker
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderBusyError, ProviderSilentError, ServerRestsError
from tentalis.outbound.scopes import CancelScope
from tests.fakes import FakeModelServer

SERVER = "https://models.example"
LIMIT_S = 100.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broken(clock: Clock) -> Breaker:
    """A breaker that has met so many silences that project 1 leaves the server alone."""
    found = Breaker(clock)
    for _ in range(SILENCES):
        found.require(1, SERVER, timeout_s=LIMIT_S)
        found.note_silence(1, SERVER)
    return found


def rests(found: Breaker, project_id: int = 1) -> float:
    """Seconds to wait; 0 where it may be asked."""
    try:
        found.require(project_id, SERVER, timeout_s=LIMIT_S)
    except ServerRestsError as error:
        return error.wait_s or 0.0
    return 0.0


def test_after_a_few_silences_in_a_row_nobody_asks(broken: Breaker) -> None:
    assert 0 < rests(broken) <= FIRST_REST_S * 1.2


def test_another_project_still_asks_the_same_server(broken: Breaker) -> None:
    assert rests(broken, project_id=2) == 0


def test_an_answer_between_silences_starts_the_count_anew(clock: Clock) -> None:
    found = Breaker(clock)
    for _ in range(SILENCES * 2):
        found.note_silence(1, SERVER)
        found.note_answer(1, SERVER)
    assert rests(found) == 0


def test_after_its_rest_one_call_tries_and_the_others_wait_for_it(broken: Breaker, clock: Clock) -> None:
    clock.now += FIRST_REST_S * 1.3
    assert rests(broken) == 0, "the one that tries"
    assert rests(broken) > 0
    broken.note_answer(1, SERVER)
    assert rests(broken) == rests(broken) == 0


def test_each_silent_try_doubles_the_rest_up_to_a_limit(broken: Breaker, clock: Clock) -> None:
    waits = []
    for _ in range(8):
        waits.append(rests(broken))
        clock.now += LONGEST_REST_S * 1.3
        assert rests(broken) == 0
        broken.note_silence(1, SERVER)
    assert waits[1] > waits[0] * 1.2
    assert LONGEST_REST_S * 0.7 < waits[-1] <= LONGEST_REST_S * 1.2


def test_a_try_that_was_cancelled_or_never_ended_lets_another_try(broken: Breaker, clock: Clock) -> None:
    clock.now += FIRST_REST_S * 1.3
    assert rests(broken) == 0
    broken.note_unknown(1, SERVER)
    assert rests(broken) == 0, "the next one tries"
    clock.now += LIMIT_S + 1
    assert rests(broken) == 0, "the one before never came back"


def ask(url: str) -> TentalisError | None:
    client = ModelClient(url, kind="vllm", timeout_s=0.1, allow_private=True)
    try:
        client.chat([{"role": "user", "content": "hello"}], model="desk", max_tokens=4)
    except ProviderBusyError as error:
        return error
    return None


def test_calls_of_links_meet_the_silence_and_then_are_spared_it() -> None:
    with FakeModelServer(mode="silent") as server, CancelScope():
        met = [type(ask(server.url)) for _ in range(SILENCES + 2)]
        assert met == [ProviderSilentError] * SILENCES + [ServerRestsError] * 2
        assert len(server.requests) == SILENCES
        breaker.note_answer(None, server.url)


def test_a_person_who_asks_hears_the_server_itself() -> None:
    with FakeModelServer(mode="silent") as server:
        met = [type(ask(server.url)) for _ in range(SILENCES + 1)]
    assert met == [ProviderSilentError] * (SILENCES + 1)


def test_a_server_that_answers_with_errors_is_not_silent() -> None:
    with FakeModelServer(mode="broken") as server, CancelScope():
        met = [type(ask(server.url)) for _ in range(SILENCES + 1)]
    assert met == [ProviderBusyError] * (SILENCES + 1)
