"""`overhead_peer.py PEER PLAN OUT`, by the peer's own Python: its evaluation of the items that stand in the plan.

Each is run as its makers have it run, keeps its results on disk as it does, and shows nothing.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def run_inspect(plan: Mapping[str, Any], place: Path) -> float:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import exact
    from inspect_ai.solver import generate

    samples = [Sample(input=one["prompt"], target=one["answer"]) for one in plan["items"]]
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=exact())
    [log] = eval(
        task, model="openai-api/stub/adder", model_base_url=plan["url"], model_args={"api_key": "none"}, display="none",
        log_dir=str(place), max_connections=plan["at_once"], max_samples=plan["at_once"],
    )  # fmt: skip
    assert log.results is not None, log.error
    return float(log.results.scores[0].metrics["mean"].value)


def run_verifiers(plan: Mapping[str, Any], place: Path) -> float:
    import verifiers
    from datasets import Dataset
    from verifiers.types import ClientConfig

    def is_right(completion: Any, answer: str, **_: Any) -> float:
        return float(completion[-1]["content"].strip() == answer)

    rows = [{"question": one["prompt"], "answer": one["answer"]} for one in plan["items"]]
    environment = verifiers.SingleTurnEnv(
        eval_dataset=Dataset.from_list(rows), rubric=verifiers.Rubric(funcs=[is_right])
    )
    os.environ["STUB_KEY"] = "none"
    told = environment.evaluate_sync(
        client=ClientConfig(api_base_url=plan["url"], api_key_var="STUB_KEY"), model="adder",
        max_concurrent=plan["at_once"], results_path=place / "results", save_results=True,
    )  # fmt: skip
    rewards = [float(one["reward"]) for one in told["outputs"]]
    return sum(rewards) / len(rewards)


def run_lm_eval(plan: Mapping[str, Any], place: Path) -> float:
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    rows = place / "rows.json"
    rows.write_text("\n".join(json.dumps(one) for one in plan["items"]))
    task = {
        "task": "sums", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(rows)}},
        "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}", "generation_kwargs": {"until": [], "max_gen_toks": 16},
        "metric_list": [{"metric": "exact_match"}],
    }  # fmt: skip
    tracker = EvaluationTracker(output_path=str(place / "results"))
    found = simple_evaluate(
        model="local-chat-completions", tasks=[task], log_samples=True, apply_chat_template=True,
        task_manager=TaskManager(include_defaults=False), evaluation_tracker=tracker,
        model_args={"model": "adder", "base_url": f"{plan['url']}/chat/completions",
                    "num_concurrent": plan["at_once"], "tokenized_requests": False},
    )  # fmt: skip
    assert found is not None
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name="sums", samples=samples["sums"])
    return float(found["results"]["sums"]["exact_match,none"])


LOADS = {
    "inspect_ai": ("inspect_ai.scorer", "openai"),
    "verifiers": ("verifiers.envs.singleturn_env", "datasets", "verifiers.clients"),
    "lm-eval": ("lm_eval.models.openai_completions", "lm_eval.loggers", "datasets"),
}
PEERS = {"inspect_ai": run_inspect, "verifiers": run_verifiers, "lm-eval": run_lm_eval}


def main(peer: str, plan: str, out: str) -> None:
    os.environ |= {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"}
    told = json.loads(Path(plan).read_text())
    place = Path(out).parent / f"{peer}-{told['at_once']}"
    place.mkdir()
    run = PEERS[peer]
    for name in LOADS[peer]:  # what it loads is no part of a run
        import_module(name)
    began, cpu = time.monotonic(), time.process_time()
    share = run(told, place)
    seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Path(out).write_text(json.dumps({"share": share, "seconds": seconds, "cpu_s": cpu_s, "memory_mb": memory}))


if __name__ == "__main__":
    main(*sys.argv[1:])
