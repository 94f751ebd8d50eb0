"""OpenRLHF on a Ray cluster: a spec becomes a job, the job's curves come home while it runs, its adapter when it ends.

Nothing is held open: `advance` starts the job, or looks at it, and returns. A job is named by run and attempt, so that
whoever asks twice, or asks again after a lost message, finds the one that was started.
"""

import dataclasses
import json
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_workers.artifacts import hash_files, write_file
from gpu_workers.backends import TrainedAdapter
from gpu_workers.backends.adapter_files import describe_adapter, package_versions, publish_adapter
from gpu_workers.backends.base_models import find_weights
from gpu_workers.backends.errors import CancelledError, TrainingError
from gpu_workers.backends.openrlhf.curves import read_curves
from gpu_workers.backends.openrlhf.planning import find_base, plan_job
from gpu_workers.backends.openrlhf.ray_jobs import ClusterAwayError, Job, RayJobs, pack_plugin
from gpu_workers.backends.openrlhf.read_back import read_saved, read_saved_head
from gpu_workers.backends.prm import publish_calibrated, read_steps
from gpu_workers.runner import SPEC_FILE
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.openrlhf_options import ClusterOptionsError
from tentalis.core.learning.recipes import Recipe
from tentalis.env import read_environment

OPENRLHF = "0.11.2"
LOG_FILE = "cluster.log"
SENT_FILE = "sent.json"
ENDED_FILE = "ended.json"
"""How the job ended: once that is known, nobody needs the cluster to bring home what it left."""
LOOK_EVERY_S = 5.0
LAST_LINES = 12
LAST_OF = ("reward", "kl_base", "clip_fraction", "loss", "accuracy")

NAMES: Mapping[str, str] = {
    "train/reward": "reward",
    "train/policy_loss": "loss_rl",
    "train/kl": "kl_base",
    "train/ppo_kl": "kl",
    "train/ppo_clip_ratio": "clip_fraction",
    "train/entropy_loss": "entropy",
    "train/actor_grad_norm": "grad_norm",
    "train/loss_mean": "loss",
    "train/acc_mean": "accuracy",
    "train/gpt_loss": "loss_last",
    "train/loss": "loss_last",
    "train/acc": "accuracy_last",
    "train/response_length": "mean_length_tokens",
    "train/rollout/num_samples": "rollouts",
    "train/timing/step_total": "step_s",
}
"""Its curves' tags by our metrics' names; others keep their tag without `train/`."""


class ClusterJobFailedError(TrainingError):
    """The job ended without an adapter; the message is Ray's word and the log's last lines."""


def find_cluster() -> RayJobs:
    """The cluster this box is told of. Raises ClusterOptionsError where it is told of none."""
    values = read_environment()
    if not values["RAY_URL"]:
        raise ClusterOptionsError("TENTALIS_RAY_URL must name the dashboard of a Ray cluster, found nothing")
    return RayJobs(values["RAY_URL"], token=values["RAY_TOKEN"])


def train(
    spec: TrainSpec,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter:
    """Train one spec and wait for it: for a run started by hand, and for the end of one that `advance` saw through."""
    cluster = find_cluster()
    while (job := advance(spec, cluster, output=output, report=report, is_cancelled=is_cancelled)) is None:
        time.sleep(LOOK_EVERY_S)
    return collect(spec, cluster, job, output=output, is_cancelled=is_cancelled)


def name_job(spec: TrainSpec) -> str:
    return f"run-{spec.run_id}-{spec.attempt}"


def advance(
    spec: TrainSpec,
    cluster: RayJobs,
    *,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
    reward_url: str = "",
) -> Job | None:
    """Start the spec's job, or look how far it is; the job once it has ended, else None.

    Raises:
        TrainingError, ContractError, ArtifactError: it cannot be trained like this, and nothing was started.
        ClusterAwayError: the cluster did not answer, or has forgotten or lost the job: this attempt will not end by
            itself, and the next goes on from what it kept.
    """
    name = name_job(spec)
    if (ended := _read_json(output / ENDED_FILE)) is not None:
        return Job(**ended)
    job = cluster.find(name)
    if job is None:
        if is_cancelled():
            raise CancelledError("cancelled before the cluster began")
        if (output / SENT_FILE).exists():
            raise ClusterAwayError(f"the cluster knows no job {name} any more")
        if _has_ended_earlier(spec, cluster):
            _submit(spec, cluster, output=output, reward_url=reward_url)
        return None
    if updates := read_updates(output):
        report(updates[-1])
    if job.was_lost and not is_cancelled():
        _keep_log(cluster, name, output)
        raise ClusterAwayError(f"the cluster lost job {name}: {job.message[:300]}")
    if job.has_ended:
        write_file(output / ENDED_FILE, canonical_json(dataclasses.asdict(job)))
        return job
    if is_cancelled():
        cluster.stop(name)
    return None


def read_updates(output: Path) -> list[dict[str, float]]:
    """The run's curves as metrics, one mapping per rollout, oldest first."""
    updates = []
    for point in read_curves(output / "curves"):
        named = {NAMES.get(tag, tag.removeprefix("train/")): value for tag, value in point.items() if tag != "step"}
        updates.append({"update": point["step"], **named})
    return [{"updates": updates[-1]["update"], **update} for update in updates] if updates else []


def collect(
    spec: TrainSpec, cluster: RayJobs, job: Job, *, output: Path, is_cancelled: Callable[[], bool]
) -> TrainedAdapter:
    """Bring home what an ended job left. Its log, which only the cluster has, is kept where that still tells it.

    Raises:
        CancelledError: it was stopped because somebody asked for that.
        ClusterJobFailedError: it ended by itself without an adapter.
        TrainingError, ArtifactError: what it left is no adapter of the recipe's.
    """
    log = _keep_log(cluster, name_job(spec), output)
    if job.status != "SUCCEEDED":
        if is_cancelled():
            raise CancelledError(f"cancelled while the cluster trained ({job.status.lower()})")
        last = "\n".join(log.strip().splitlines()[-LAST_LINES:])
        raise ClusterJobFailedError(f"the cluster's job {job.status.lower()}: {job.message[:500]}\n{last[-2000:]}")
    if spec.purpose == "reward_model":
        return _collect_head(spec, output=output, is_cancelled=is_cancelled)
    recipe = Recipe.from_json(spec.recipe)
    fields = describe_adapter(spec, recipe, hash_files(find_weights(find_base(spec))))
    directory, sha256 = publish_adapter(read_saved(output / "saved", recipe), fields, parent=output)
    updates = read_updates(output)
    summary = {name: updates[-1][name] for name in LAST_OF if updates and name in updates[-1]} | {
        "updates": float(len(updates)),
        "rollouts": sum(update.get("rollouts", 0.0) for update in updates),
        "wall_s": sum(update.get("step_s", 0.0) for update in updates),
    }
    sent = _read_json(output / SENT_FILE) or {}
    if "hints" in sent:
        summary["tasks_hinted"] = float(sent["hints"])
        summary |= {f"refused_{reason}": float(count) for reason, count in sorted(sent["refused"].items())}
    versions = package_versions() | {"openrlhf": OPENRLHF}
    return TrainedAdapter(directory, sha256, list(updates), summary, versions, sent.get("notes", ()))


def _read_json(file: Path) -> dict[str, Any] | None:
    """What was noted of the job; None where that is not here."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _collect_head(spec: TrainSpec, *, output: Path, is_cancelled: Callable[[], bool]) -> TrainedAdapter:
    """The head of a reward model, calibrated on states as our own engine reads them, which is who serves it."""
    started = time.perf_counter()
    head = read_saved_head(output / "saved")
    read = read_steps(spec, is_cancelled)
    found = publish_calibrated(spec, head, read, output=output, metrics=list(read_updates(output)), started=started)
    return dataclasses.replace(found, versions={**found.versions, "openrlhf": OPENRLHF})


def _keep_log(cluster: RayJobs, name: str, output: Path) -> str:
    """The job's log; why it cannot be read, where the cluster does not tell it: no log is no reason to lose a run."""
    try:
        log = cluster.read_logs(name)
    except ClusterAwayError as error:
        return f"its log cannot be read: {error}"
    write_file(output / LOG_FILE, log.encode())
    return log


def _has_ended_earlier(spec: TrainSpec, cluster: RayJobs) -> bool:
    """Whether no earlier attempt's job is at work; one that is was given up and may not know it, and is stopped.

    Two would write into the same checkpoints.
    """
    is_clear = True
    for number in range(1, spec.attempt):
        name = name_job(dataclasses.replace(spec, attempt=number))
        job = cluster.find(name)
        if job is not None and not job.has_ended:
            cluster.stop(name)
            is_clear = False
    return is_clear


def _submit(spec: TrainSpec, cluster: RayJobs, *, output: Path, reward_url: str) -> None:
    planned = plan_job(spec, output=output, reward_url=reward_url)
    write_file(output / SPEC_FILE, canonical_json(spec.to_json()))  # whose work the checkpoints beside it are
    cluster.submit(
        name_job(spec),
        f"exec {shlex.join(planned.words)}",  # no shell between: whoever ends the driver ends the training
        variables=planned.variables,
        package=pack_plugin(),
        metadata={"run": str(spec.run_id), "attempt": str(spec.attempt), "spec": spec.content_hash},
        **({"entrypoint_num_gpus": planned.gpus} if planned.gpus else {}),
    )
    write_file(output / SENT_FILE, canonical_json({"job": name_job(spec), **planned.told}))
