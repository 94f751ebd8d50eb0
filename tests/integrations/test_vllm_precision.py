"""A real vLLM as teacher, and how far the log-probs of the same weights come out apart there, by precision.

What the second test prints is what `probe_tolerance_nats` of the kind `vllm` was chosen by. Runs when asked for by name
(`pytest -m vllm`), see `vllm_process`.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from apps.inference.client import ModelClient
from apps.inference.client import Sample as Answer
from apps.inference.provider_kinds import find_kind
from gpu_workers.artifacts import path_from_uri
from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.micro_batches import score_answers, score_frozen
from gpu_workers.backends.served_teachers import open_teacher
from gpu_workers.runner import run
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.desk_rollouts import TICKETS, make_desk_rollouts
from tests.gpu_workers.learning.training_factory import make_spec
from tests.integrations.vllm_process import API_KEY, MARKS, VllmServer

pytestmark = MARKS
torch.set_num_threads(1)
TOLERANCE_NATS = find_kind("vllm").probe_tolerance_nats
FLOAT32_NATS = 1e-3
PROBED_TOKENS = 8


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def vllm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VllmServer, str]]:
    server = VllmServer(tmp_path_factory.mktemp("vllm") / "server.log", dtype=request.param)
    try:
        server.start()
        yield server, request.param
    finally:
        server.kill()


def find_gap(ours: Iterable[Sequence[float]], theirs: Iterable[Sequence[float]]) -> float:
    return max(abs(a - b) for mine, yours in zip(ours, theirs, strict=True) for a, b in zip(mine, yours, strict=True))


def test_a_vllm_teacher_says_what_the_local_one_says(
    vllm: tuple[VllmServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, dtype = vllm
    monkeypatch.setenv("TENTALIS_TEACHER_API_KEY", API_KEY)
    base, rollouts = load_base("desk"), make_desk_rollouts(size=8)
    items = [(base.read_prompt(rollout.hinted_messages or []), rollout) for rollout in rollouts]
    with open_teacher("served:desk", {"teacher_url": server.url}) as teacher:
        teacher.require_same_tokens(range(base.codec.size), base.codec)
        theirs = teacher.score(items)
    gap = find_gap(score_frozen(base, items), theirs)
    print(f"{dtype}: a served teacher's log-probs are at most {gap:.2e} nats from the local float32 one's")  # noqa: T201
    assert gap < (FLOAT32_NATS if dtype == "float32" else TOLERANCE_NATS)


def test_the_same_weights_come_out_within_the_probes_tolerance(vllm: tuple[VllmServer, str], tmp_path: Path) -> None:
    server, dtype = vllm
    client = ModelClient(server.url, API_KEY, kind="vllm", allow_private=True)
    recipe = Recipe(minibatches=1, w_rl=1.0, w_opd=0.0)
    trained = run(make_spec(tmp_path, make_desk_rollouts(size=8), recipe=recipe, base_model="desk"), lambda _: None)
    client.load_adapter("p.w@v1", str(path_from_uri(trained.adapter_uri)))

    def ask(number: int) -> Answer:
        messages = [{"role": "user", "content": f"{TICKETS[number % 4]} {number}"}]
        (sample,) = client.chat(messages, model="p.w@v1", max_tokens=PROBED_TOKENS, temperature=0.0)
        return sample

    with ThreadPoolExecutor(16) as pool:  # as in service: in batches of whatever size
        samples = list(pool.map(ask, range(128)))
    rows = [[*sample.prompt_token_ids, *sample.token_ids] for sample in samples]
    alone = [client.score([row], model="p.w@v1")[0] for row in rows]
    together = client.score(rows, model="p.w@v1")
    answers = [found[-len(sample.token_ids) :] for found, sample in zip(alone, samples, strict=True)]
    gaps = {
        "sampled and scored": find_gap([sample.logprobs for sample in samples], answers),
        "alone and in a batch": find_gap(alone, together),
    }
    base = client.score(rows, model="desk")
    moved = sorted(find_gap([mine], [yours]) for mine, yours in zip(alone, base, strict=True))
    local = score_answers(load_base("desk"), [(row[:1], row[1:]) for row in rows], {})
    gaps["here in float32"] = find_gap(local, base)
    said = ", ".join(f"{name} {gap:.2e}" for name, gap in gaps.items())
    print(f"{dtype}: largest gaps in nats: {said}; one update moves a row by {moved[0]:.3f}..{moved[-1]:.3f}")  # noqa: T201
    client.unload_adapter("p.w@v1")
    assert max(gaps.values()) < (FLOAT32_NATS if dtype == "float32" else TOLERANCE_NATS)
    assert moved[len(moved) // 2] > TOLERANCE_NATS, "other weights under a name are to be found out"
