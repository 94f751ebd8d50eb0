"""Rewards over the wire: OpenRLHF's own executor and ours ask the platform's own route."""

import asyncio
import importlib.util
import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django.live_server_helper import LiveServer
from transformers import PreTrainedTokenizerFast

from apps.accounts.models import Project
from apps.base.counting import forget_callers
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.tasks.models import Task
from apps.training.models import RewardAnswer, RewardEndpoint, TrainingRun
from apps.training.rewards import issue_reward_url
from apps.workers.models import Worker
from gpu_workers.backends.openrlhf import plugin
from gpu_workers.desk import base_directory
from tests.edges.caller import Caller
from tests.factories import make_attempt, make_task, make_worker
from tests.gpu_workers.openrlhf.real_classes import import_openrlhf

RIGHT = "<step> 2 * 2 = 4</step><step> ship 4 + 5 = 9</step><answer> 9 EUR</answer><|end|>"
TICKET = "Order: 2 mug at 2 EUR, new client. Total?"
STOCK = "Stock: client wants 20 vase. Buy how many?"


@pytest.fixture(scope="module")
def openrlhf() -> Iterator[SimpleNamespace]:
    with import_openrlhf() as modules:
        spec = importlib.util.spec_from_file_location("agent_module", f"{plugin.__path__[0]}/executor.py")
        assert spec is not None
        assert spec.loader is not None
        modules.ours = importlib.util.module_from_spec(spec)  # as OpenRLHF loads it
        spec.loader.exec_module(modules.ours)
        yield modules


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return PreTrainedTokenizerFast(
        tokenizer_file=str(base_directory() / "tokenizer.json"), eos_token="<|end|>", pad_token="<|pad|>"
    )


def make_run(project: Project, *prompts: str) -> tuple[TrainingRun, list[Task]]:
    """A run at work on a batch of tickets."""
    worker = make_worker(project, name="clerk", kind="desk")
    batch = Batch.objects.create(project=project, worker=worker, number=1, state="closed", target_tasks=1)
    tasks = []
    for prompt in prompts:
        task = make_task(project, worker, environment="desk", prompt=prompt)
        rollout = Rollout.objects.create(
            project=project, worker=worker, task=task, attempt=make_attempt(task), is_usable=True, reward=1.0
        )
        TrainingUse.objects.create(rollout=rollout, batch=batch)
        tasks.append(task)
    run = TrainingRun.objects.create(
        project=project, worker=worker, batch=batch, backend="openrlhf", recipe={}, recipe_hash="0" * 64,
        state="running", attempt=1,
    )  # fmt: skip
    forget_callers()
    return run, tasks


class Engine:
    """vLLM, as an executor sees it: it says what it was told to, token by token."""

    def __init__(self, tokenizer: Any, *answers: str) -> None:
        self.tokenizer, self.answers, self.asked = tokenizer, list(answers), []  # type: ignore[var-annotated]

    async def generate(self, ids: Sequence[int], params: Any, multi_modal_data: Any = None) -> Any:
        self.asked.append((list(ids), deepcopy(params)))
        made = self.tokenizer(self.answers.pop(0), add_special_tokens=False)["input_ids"][: params.max_tokens]
        logprobs = [{token: SimpleNamespace(logprob=-0.5)} for token in made]
        text = self.tokenizer.decode(made)
        is_cut = len(made) == params.max_tokens
        reason = "length" if is_cut else "stop"
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=made, text=text, finish_reason=reason, logprobs=logprobs)]
        )


def ask(executor: Any, task: Task, tokenizer: Any, *answers: str, max_tokens: int = 44) -> dict[str, Any]:
    prompt = f"<|user|>{task.prompt}<|end|><|assistant|>"
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    label = {"task": task.pk, "prompt_token_ids": ids, "stop_token_ids": tokenizer.encode("</call>")}
    params = SimpleNamespace(max_tokens=max_tokens, logprobs=1, stop_token_ids=None)
    engine = Engine(tokenizer, *answers)
    found: dict[str, Any] = asyncio.run(executor.execute(prompt, json.dumps(label), params, 200, tokenizer, engine))
    found["asked"] = engine.asked
    return found


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("answer", "worth"), [(RIGHT, 1.0), (RIGHT.replace("9 EUR", "8 EUR"), 0.0)])
def test_their_executor_gets_the_reward_of_what_the_world_verified(
    project: Project, live_server: LiveServer, settings: Any, openrlhf: Any, tokenizer: Any, answer: str, worth: float
) -> None:
    settings.TENTALIS = {**settings.TENTALIS, "REWARD_BASE_URL": live_server.url}
    run, (task,) = make_run(project, TICKET)
    found = ask(openrlhf.agent.SingleTurnAgentExecutor(issue_reward_url(run.pk, 1)), task, tokenizer, answer)
    assert (found["reward"], found["scores"], found["extra_logs"]["verified"]) == (worth, worth, 1.0)
    sample = openrlhf.generator.SamplesGenerator.__new__(openrlhf.generator.SamplesGenerator)
    experience = sample._process_response_into_experience(found, max_len=200)
    assert experience.rewards.tolist() == [worth]


@pytest.mark.django_db(transaction=True)
def test_our_executor_asks_the_tool_and_keeps_the_exact_tokens(
    project: Project, live_server: LiveServer, settings: Any, openrlhf: Any, tokenizer: Any, monkeypatch: Any
) -> None:
    settings.TENTALIS = {**settings.TENTALIS, "REWARD_BASE_URL": live_server.url}
    run, (task,) = make_run(project, STOCK)
    monkeypatch.setenv(openrlhf.ours.URL_VARIABLE, issue_reward_url(run.pk, 1))
    found = ask(openrlhf.ours.AgentExecutor(), task, tokenizer, "<call> room</call>", "<answer> 9</answer><|end|>")
    text = tokenizer.decode(found["observation_tokens"])
    (first, middle), (second, end) = found["action_ranges"]
    result = tokenizer.decode(found["observation_tokens"][middle:second])
    assert (result[:8], result[-9:]) == ("<result>", "</result>"), text
    assert tokenizer.decode(found["observation_tokens"][first:middle]).strip() == "<call> room</call>"
    assert end == len(found["observation_tokens"]) == len(found["rollout_log_probs"])
    assert set(found["rollout_log_probs"][middle:second]) == {0.0}, "a tool's tokens are no actions"
    assert found["asked"][1][0] == found["observation_tokens"][:second]
    assert found["asked"][0][1].stop_token_ids == tokenizer.encode("</call>")
    assert found["reward"] in (0.0, 1.0)
    openrlhf.generator.SamplesGenerator._process_response_into_experience(None, found, max_len=200)


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_was_cut_off_is_no_right_answer(
    project: Project, live_server: LiveServer, settings: Any, openrlhf: Any, tokenizer: Any, monkeypatch: Any
) -> None:
    settings.TENTALIS = {**settings.TENTALIS, "REWARD_BASE_URL": live_server.url}
    run, (task,) = make_run(project, TICKET)
    monkeypatch.setenv(openrlhf.ours.URL_VARIABLE, issue_reward_url(run.pk, 1))
    found = ask(openrlhf.ours.AgentExecutor(), task, tokenizer, RIGHT, max_tokens=12)
    assert (found["reward"], found["truncated"]) == (0.0, True)


@pytest.mark.django_db(transaction=True)
def test_a_refused_question_ends_the_run_in_words(
    project: Project, live_server: LiveServer, openrlhf: Any, tokenizer: Any, monkeypatch: Any
) -> None:
    _, (task,) = make_run(project, TICKET)
    monkeypatch.setenv(openrlhf.ours.URL_VARIABLE, f"{live_server.url}/api/v1/rewards/{'0' * 64}")
    with pytest.raises(RuntimeError, match="no reward for an answer: 404"):
        ask(openrlhf.ours.AgentExecutor(), task, tokenizer, RIGHT)


def question(task: Task, **changes: Any) -> dict[str, Any]:
    return {"query": [f"p{RIGHT}"], "prompts": ["p"], "labels": [json.dumps({"task": task.pk})]} | changes


def path_of(run: TrainingRun) -> str:
    return "rewards/" + issue_reward_url(run.pk, run.attempt).rpartition("/")[2]


@pytest.mark.django_db
def test_the_same_question_gets_the_same_answer_and_is_kept_once(project: Project) -> None:
    run, (task,) = make_run(project, TICKET)
    first = Caller("").post(path_of(run), question(task))
    Task.objects.filter(pk=task.pk).update(prompt=TICKET.replace("2 EUR", "3 EUR"))  # the truth changed meanwhile
    second = Caller("").post(path_of(run), question(task))
    assert (first.status, first.body["rewards"]) == (200, 1.0)
    assert second.body == first.body
    assert RewardAnswer.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["ended", "next attempt", "expired", "unknown"])
def test_a_door_opens_for_its_own_attempt_while_that_lasts(project: Project, change: str) -> None:
    run, (task,) = make_run(project, TICKET)
    path = path_of(run)
    if change == "ended":
        TrainingRun.objects.update(state="succeeded")
    elif change == "next attempt":
        TrainingRun.objects.update(attempt=2)
    elif change == "expired":
        RewardEndpoint.objects.update(expires_at=Now())
    else:
        path = f"rewards/{'f' * 64}"
    assert Caller("").post(path, question(task)).status == 404
    assert not RewardAnswer.objects.exists()


@pytest.mark.django_db
def test_the_secret_is_kept_nowhere_and_is_the_same_when_asked_again(project: Project) -> None:
    run, _ = make_run(project, TICKET)
    secret = path_of(run).rpartition("/")[2]
    assert path_of(run).endswith(secret)
    endpoint = RewardEndpoint.objects.get()
    assert secret not in json.dumps([endpoint.secret_hash, run.spec])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"labels": ["{}"]}, 400, "labels"),
        ({"labels": ["no"]}, 400, "labels"),
        ({"query": ["something else"]}, 400, "wanted the prompt and then the answer"),
        ({"query": []}, 400, "query"),
        ({"parts": [{"text": "x"}]}, 400, "parts"),
        ({"labels": ['{"task": 999999}']}, 409, "batch"),
    ],
)
def test_what_cannot_be_rewarded_is_refused_by_name(
    project: Project, changes: dict[str, Any], status: int, words: str
) -> None:
    run, (task,) = make_run(project, TICKET)
    answer = Caller("").post(path_of(run), question(task, **changes))
    assert answer.status == status
    assert words in json.dumps(answer.body)


@pytest.mark.django_db
def test_what_nobody_can_score_is_no_reward(project: Project) -> None:
    """A chat task without a reference and without judges: asking again may help, a made-up number would not."""
    run, (task,) = make_run(project, TICKET)
    Project.objects.update(weight_profiles={"chat": {"prm": 1.0}})
    Worker.objects.filter(pk=task.worker_id).update(kind=Worker.Kind.CHAT)
    Task.objects.filter(pk=task.pk).update(environment="chat")
    answer = Caller("").post(path_of(run), question(task))
    assert (answer.status, answer.body["code"]) == (503, "unscored")
    assert not RewardAnswer.objects.exists()
