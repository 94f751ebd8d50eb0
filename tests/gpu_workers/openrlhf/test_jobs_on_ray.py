"""A run's job on Ray, against a server that answers as Ray 2.55 does: started once, watched, stopped, read."""

import dataclasses
import hashlib
import io
import json
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.backends.errors import CancelledError, NothingToLearnError
from gpu_workers.backends.openrlhf.backend import ClusterJobFailedError, advance, collect, name_job
from gpu_workers.backends.openrlhf.prompts import load_codec, write_prompts
from gpu_workers.backends.openrlhf.ray_jobs import ClusterAwayError, RayJobs, pack_plugin
from gpu_workers.engine.text import TextCodec
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AdapterManifest, AnswerRecord, PairRecord, RolloutRecord, TrainSpec
from tentalis.core.learning.openrlhf_options import ClusterOptions, ClusterOptionsError, UnsupportedRecipeError
from tentalis.core.learning.recipes import Recipe
from tests.gpu_workers.openrlhf.command_line import CommandLines
from tests.gpu_workers.openrlhf.peer import fetch_openrlhf
from tests.gpu_workers.openrlhf.test_coming_home import write_events, write_saved
from tests.gpu_workers.templated import (
    CONVERSATIONS,
    HINT,
    TOOLS,
    make_templated_model,
    make_templated_rollouts,
    serve_prompt,
)
from tests.local_server import LocalHandler, LocalServer

RECIPE = Recipe(
    lora_rank=4, lora_alpha=8.0, target_modules=("q_proj",), step_mix=0.0, w_rl=1.0, w_opd=0.0, minibatches=1
)
OPTIONS = {"samples_per_prompt": 2, "micro_batch": 1, "max_tokens": 64, "max_new_tokens": 44, "zero_stage": 0}


class Ray:
    """Ray's Jobs API, as far as a run needs it."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.packages: dict[str, bytes] = {}
        self.stopped: list[str] = []
        owner = self

        class Handler(LocalHandler):
            def say(self, status: int, body: Any) -> None:
                self.answer(status, json.dumps(body).encode())

            def do_PUT(self) -> None:
                owner.packages[self.path.rpartition("/")[2]] = self.read()
                self.say(200, {})

            def do_POST(self) -> None:
                body = self.read()
                if self.path.endswith("/stop"):
                    name = self.path.split("/")[3]
                    owner.stopped.append(name)
                    self.say(200 if name in owner.jobs else 404, {"stopped": True})
                    return
                job = json.loads(body)
                if job["submission_id"] in owner.jobs:
                    self.say(500, f"Job with submission_id {job['submission_id']} already exists")
                    return
                owner.jobs[job["submission_id"]] = {**job, "status": "PENDING", "message": ""}
                self.say(200, {"submission_id": job["submission_id"]})

            def do_GET(self) -> None:
                parts = self.path.split("/")
                if parts[2] == "packages":
                    self.say(200 if parts[-1] in owner.packages else 404, {})
                elif parts[3] not in owner.jobs:
                    self.say(404, f"Job {parts[3]} does not exist")
                elif parts[-1] == "logs":
                    self.say(200, {"logs": "line\nRuntimeError: no reward for an answer: 404\n"})
                else:
                    self.say(200, owner.jobs[parts[3]])

        self.server = LocalServer(Handler)
        self.client = RayJobs(self.server.url)


@pytest.fixture
def ray() -> Iterator[Ray]:
    made = Ray()
    with made.server:
        yield made


ASKED = [{"role": "user", "content": "Order: 2 mug at 2 EUR, new client. Total?"}]


def read_desk_prompt(messages: list[dict[str, str]]) -> list[int]:
    codec = load_codec("desk")
    return codec.encode([codec.render_chat(messages)], add_special_tokens=False)[0]


def make_spec(
    folder: Path, *, attempt: int = 1, recipe: Recipe = RECIPE, hint_weight: float | None = None, **options: Any
) -> TrainSpec:
    """A spec of two tasks with two tries each, the first of them hinted."""
    messages, prompt = ASKED, read_desk_prompt(ASKED)
    rollouts = [
        RolloutRecord(
            rollout_id=number, group_id=number // 2 + 5, adapter="", policy_version=0, messages=messages,
            hinted_messages=messages if number == 1 else None, prompt_token_ids=prompt, token_ids=[7, 1],
            logprobs=[-1.0, -1.0], sampled=[True, True], reward=float(number % 2), weight=0.5,
            hint_weight=hint_weight,
        )
        for number in range(4)
    ]  # fmt: skip
    data = b"".join(canonical_json(rollout.to_json()) + b"\n" for rollout in rollouts)
    (folder / "batch.jsonl").write_bytes(data)
    output = folder / "out" / str(attempt)
    output.mkdir(parents=True, exist_ok=True)
    return TrainSpec(
        run_id=3, attempt=attempt, worker="clerk", base_model="desk", parent_adapter_uri=None, parent_sha256=None,
        policy_version=0, rollouts_uri=(folder / "batch.jsonl").as_uri(),
        rollouts_sha256=hashlib.sha256(data).hexdigest(),
        recipe=recipe.to_json(), seed=1, output_uri=output.as_uri(), backend="openrlhf",
        options={**OPTIONS, "stops": ["</call>"], **options},
    )  # fmt: skip


def look(spec: TrainSpec, ray: Ray, *, cancelled: bool = False) -> Any:
    seen: list[Any] = []
    output = Path(spec.output_uri.removeprefix("file://"))
    found = advance(
        spec, ray.client, output=output, report=seen.append, is_cancelled=lambda: cancelled, reward_url="http://web/r/s"
    )
    return found, seen, output


def test_a_job_is_started_once_with_what_its_parser_takes(ray: Ray, tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    assert look(spec, ray)[:2] == (None, [])
    sent = Path(spec.output_uri.removeprefix("file://")) / "spec.json"
    assert TrainSpec.from_json(json.loads(sent.read_bytes())) == spec, "the next attempt reads what this one works on"
    assert look(spec, ray)[:2] == (None, [])
    (job,) = ray.jobs.values()
    assert job["submission_id"] == name_job(spec) == "run-3-1"
    _, _, _, module, cli, *argv = shlex.split(job["entrypoint"])
    assert (module, cli) == ("tentalis_rlhf.entry", "openrlhf.cli.train_ppo_ray")
    args = CommandLines(fetch_openrlhf()).plan(argv).args
    assert (args.rollout.batch_size, args.train.batch_size, args.train.seed) == (2, 4, 1)
    variables = job["runtime_env"]["env_vars"]
    assert variables["TENTALIS_REWARD_URL"] == "http://web/r/s"
    ours = {"TOKENIZERS_PARALLELISM", "NCCL_DEBUG", "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS"}
    assert not ours & set(variables), "Ray refuses a variable that OpenRLHF sets too"
    assert "http://web/r/s" not in "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    (package,) = ray.packages
    assert job["runtime_env"]["working_dir"] == f"gcs://{package}"
    names = zipfile.ZipFile(io.BytesIO(ray.packages[package])).namelist()
    assert {"tentalis_rlhf/entry.py", "tentalis_rlhf/executor.py", "tentalis_rlhf/hooks.py"} <= set(names)


@pytest.mark.parametrize(("hint_weight", "weight"), [(None, 0.5), (0.25, 0.25)])
def test_a_prompt_is_what_the_engine_saw_and_its_label_what_a_reward_needs(
    ray: Ray, tmp_path: Path, hint_weight: float | None, weight: float
) -> None:
    taught = Recipe.from_json({**RECIPE.to_json(), "w_opd": 0.3})
    spec = make_spec(tmp_path, recipe=taught, hint_weight=hint_weight, teacher_url="http://t", teacher_model="desk")
    _, _, output = look(spec, ray)
    lines = [json.loads(line) for line in (output / "data.jsonl").read_text().splitlines()]
    first, second = (json.loads(line["label"]) for line in lines)
    assert (first["task"], first["prompt_token_ids"], len(first["stop_token_ids"])) == (5, read_desk_prompt(ASKED), 1)
    assert (first["weight"], first["hinted_prompt_token_ids"]) == (weight, read_desk_prompt(ASKED))
    assert "hinted_prompt_token_ids" not in second


def test_a_hint_reaches_the_cluster_only_where_the_served_prompt_is_rendered_again(ray: Ray, tmp_path: Path) -> None:
    directory, messages = make_templated_model("qwen2.5"), CONVERSATIONS["call without content"]
    prompt = serve_prompt(directory, messages, tools=TOOLS)
    told = [
        dataclasses.replace(one, rollout_id=number, group_id=number, rendering=rendering)
        for number, rendering in enumerate(({"tools": TOOLS}, {}))
        for one in make_templated_rollouts(directory, messages, prompt, size=1)
    ]
    options = ClusterOptions.from_json({**OPTIONS, "stops": [], "max_tokens": 2048})
    recipe = Recipe.from_json({**RECIPE.to_json(), "w_opd": 0.3})
    written = write_prompts(tmp_path / "d.jsonl", told, base_model=str(directory), recipe=recipe, options=options)
    lines = (tmp_path / "d.jsonl").read_text().splitlines()
    first, second = (json.loads(json.loads(line)["label"]) for line in lines)
    codec = TextCodec.from_directory(directory)
    hinted = codec.decode(first["hinted_prompt_token_ids"], skip_special=False)
    assert HINT in hinted
    assert "# Tools" in hinted
    assert "hinted_prompt_token_ids" not in second
    assert (written.tasks, written.hints, dict(written.refused.counts)) == (2, 1, {"hint_does_not_replay": 1})
    assert "where the server read" in written.refused.notes[0]


def test_an_attempt_in_several_sequences_is_one_prompt_how_it_began(tmp_path: Path) -> None:
    """Its earlier parts stand in groups of their own, with ids below 0."""
    [last] = make_templated_rollouts(
        make_templated_model("qwen2.5"), CONVERSATIONS["call without content"], [3, 4, 5, 6, 7], size=1
    )
    parts = [
        dataclasses.replace(last, group_id=-4411, prompt_token_ids=[3, 4, 5]),
        dataclasses.replace(last, group_id=5),
    ]
    options = ClusterOptions.from_json({**OPTIONS, "stops": []})
    written = write_prompts(tmp_path / "d.jsonl", parts, base_model="desk", recipe=RECIPE, options=options)
    (line,) = (tmp_path / "d.jsonl").read_text().splitlines()
    label = json.loads(json.loads(line)["label"])
    assert (written.tasks, label["task"], label["prompt_token_ids"]) == (1, 5, [3, 4, 5])


def test_a_running_job_sends_its_curves_home_and_is_stopped_when_asked(ray: Ray, tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    _, _, output = look(spec, ray)
    ray.jobs["run-3-1"]["status"] = "RUNNING"
    write_events(
        output / "curves" / "run" / "events.out.tfevents.1.h", (1, "train/reward", 0.25), (2, "train/reward", 0.5)
    )
    assert look(spec, ray)[:2] == (None, [{"update": 2.0, "updates": 2.0, "reward": 0.5}])
    look(spec, ray, cancelled=True)
    assert ray.stopped == ["run-3-1"]
    ray.jobs["run-3-1"]["status"] = "STOPPED"
    job, _, _ = look(spec, ray, cancelled=True)
    with pytest.raises(CancelledError, match="while the cluster trained"):
        collect(spec, ray.client, job, output=output, is_cancelled=lambda: True)


def test_what_it_trained_becomes_an_adapter_with_a_manifest(ray: Ray, tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    _, _, output = look(spec, ray)
    write_events(output / "curves" / "events.out.tfevents.1.h", (1, "train/reward", 0.25))
    write_saved(output / "saved")
    ray.jobs["run-3-1"]["status"] = "SUCCEEDED"
    job, _, _ = look(spec, ray)
    trained = collect(spec, ray.client, job, output=output, is_cancelled=lambda: False)
    manifest = AdapterManifest.from_json(json.loads((trained.directory / "manifest.json").read_bytes()))
    assert (manifest.rank, manifest.alpha, manifest.recipe_hash) == (4, 8.0, RECIPE.hash)
    assert trained.directory.name == trained.sha256
    assert trained.metrics == [{"update": 1.0, "updates": 1.0, "reward": 0.25}]
    assert trained.versions["openrlhf"] == "0.11.2"
    assert (output / "cluster.log").read_text().startswith("line")


def test_what_has_ended_comes_home_though_the_cluster_is_away_by_then(ray: Ray, tmp_path: Path) -> None:
    spec, away = make_spec(tmp_path), RayJobs("http://127.0.0.1:1")
    _, _, output = look(spec, ray)
    write_saved(output / "saved")
    ray.jobs["run-3-1"]["status"] = "SUCCEEDED"
    ended, _, _ = look(spec, ray)
    ray.client = away
    job, _, _ = look(spec, ray)
    assert job == ended
    assert collect(spec, away, job, output=output, is_cancelled=lambda: False).directory.is_dir()


def test_a_job_that_failed_says_why(ray: Ray, tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    _, _, output = look(spec, ray)
    ray.jobs["run-3-1"] |= {"status": "FAILED", "message": "exit code 1"}
    job, _, _ = look(spec, ray)
    with pytest.raises(ClusterJobFailedError, match=r"(?s)job failed: exit code 1.*no reward for an answer: 404"):
        collect(spec, ray.client, job, output=output, is_cancelled=lambda: False)


def test_a_cluster_that_forgot_a_job_is_no_reason_to_start_it_twice(ray: Ray, tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    look(spec, ray)
    ray.jobs.clear()
    with pytest.raises(ClusterAwayError, match="knows no job run-3-1 any more"):
        look(spec, ray)
    assert ray.jobs == {}


def test_the_next_attempt_waits_until_what_the_last_one_left_at_work_has_ended(ray: Ray, tmp_path: Path) -> None:
    look(make_spec(tmp_path), ray)
    assert look(make_spec(tmp_path, attempt=2), ray)[0] is None
    assert ray.stopped == ["run-3-1"]
    assert set(ray.jobs) == {"run-3-1"}, "two would write into the same checkpoints"
    ray.jobs["run-3-1"]["status"] = "STOPPED"
    look(make_spec(tmp_path, attempt=2), ray)
    assert set(ray.jobs) == {"run-3-1", "run-3-2"}


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        ({"driver_exit_code": -9}, True),
        ({"driver_exit_code": 137}, True),
        ({"error_type": "JOB_SUPERVISOR_ACTOR_DIED"}, True),
        ({"driver_exit_code": 1, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR"}, False),
    ],
)
def test_a_job_that_was_killed_gives_no_sign_of_life_and_one_that_failed_says_so(
    ray: Ray, tmp_path: Path, told: dict[str, Any], lost: bool
) -> None:
    spec = make_spec(tmp_path)
    _, _, output = look(spec, ray)
    ray.jobs["run-3-1"] |= {"status": "FAILED", "message": "it ended", **told}
    if not lost:
        assert look(spec, ray)[0].status == "FAILED"
        return
    with pytest.raises(ClusterAwayError, match="the cluster lost job run-3-1: it ended"):
        look(spec, ray)
    assert (output / "cluster.log").read_text().startswith("line")
    assert look(spec, ray, cancelled=True)[0] is not None, "nobody waits for the next attempt of what is not wanted"


def test_a_cluster_that_is_not_there_or_breaks_off_is_said_to_be_away() -> None:
    class Handler(LocalHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
            self.close_connection = True

    with LocalServer(Handler) as server:
        for url in ("http://127.0.0.1:1", server.url):
            with pytest.raises(ClusterAwayError, match="cannot be reached"):
                RayJobs(url).find("run-1-1")


def test_the_clusters_token_goes_nowhere_else(ray: Ray) -> None:
    class Handler(LocalHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{ray.server.url}{self.path}")
            self.end_headers()

    ray.jobs["run-1-1"] = {"status": "SUCCEEDED"}
    with LocalServer(Handler) as server, pytest.raises(ClusterAwayError, match="answered 302"):
        RayJobs(server.url, token="canary").find("run-1-1")


@pytest.mark.parametrize(
    ("recipe", "options", "error"),
    [
        ({"algorithm": "cispo"}, {}, UnsupportedRecipeError),
        ({"w_opd": 0.3}, {}, ClusterOptionsError),
        ({}, {"max_new_tokens": 62}, NothingToLearnError),
        ({}, {"stops": ["two words"]}, ClusterOptionsError),
        ({}, {"micro_batch": 3}, ClusterOptionsError),
    ],
    ids=["algorithm", "no teacher", "no room", "stop", "sizes"],
)
def test_what_cannot_be_is_refused_before_anything_is_submitted(
    ray: Ray, tmp_path: Path, recipe: dict[str, Any], options: dict[str, Any], error: type[Exception]
) -> None:
    spec = make_spec(tmp_path, recipe=Recipe.from_json({**RECIPE.to_json(), **recipe}), **options)
    with pytest.raises(error):
        look(spec, ray)
    assert ray.jobs == {}
    assert ray.packages == {}


def test_the_plugins_bytes_follow_from_its_files_alone() -> None:
    assert pack_plugin() == pack_plugin()


@pytest.mark.parametrize(
    ("weights", "more", "refusal"),
    [
        ((1.0, 1.0), [], ""),
        ((1.0, 0.5), [], r"found 0\.5 to 1\.0"),
        (
            (1.0, 1.0),
            [AnswerRecord(token_ids=[8, 1], counts=[True, True], prompt_token_ids=[3, 5])],
            "found 2 with several",
        ),
    ],
    ids=["alike", "weighed", "several sequences"],
)
def test_preferences_go_to_the_stock_trainer_where_all_count_alike(
    ray: Ray, tmp_path: Path, weights: Any, more: list[AnswerRecord], refusal: str
) -> None:
    pairs = [
        PairRecord(
            pair_id=number, group_id=number, source="edit", messages=[], prompt_token_ids=[3, 9, 1, 4],
            chosen=[AnswerRecord(token_ids=[7, 1], counts=[True, True])],
            rejected=[AnswerRecord(token_ids=[8, 1], counts=[True, True]), *more], weight=weight,
        )
        for number, weight in enumerate(weights)
    ]  # fmt: skip
    data = b"".join(canonical_json(pair.to_json()) + b"\n" for pair in pairs)
    (tmp_path / "pairs.jsonl").write_bytes(data)
    spec = dataclasses.replace(
        make_spec(tmp_path, recipe=Recipe.from_json({**RECIPE.to_json(), "algorithm": "dpo", "beta": 0.3})),
        rollouts_uri=(tmp_path / "pairs.jsonl").as_uri(),
        rollouts_sha256=hashlib.sha256(data).hexdigest(),
    )
    if refusal:
        with pytest.raises(UnsupportedRecipeError, match=refusal):
            look(spec, ray)
        assert ray.jobs == {}
        return
    look(spec, ray)
    (job,) = ray.jobs.values()
    assert job["entrypoint_num_gpus"] == 1
    words = shlex.split(job["entrypoint"])
    place = words.index("openrlhf.cli.train_dpo")
    assert words[place - 2 : place] == ["-m", "tentalis_rlhf.entry"]
    args = CommandLines(fetch_openrlhf()).parse("dpo", words[place + 1 :])
    assert (args.model.beta, args.train.batch_size) == (0.3, 2)
    assert "TENTALIS_REWARD_URL" not in job["runtime_env"]["env_vars"]
