"""`resume_peer.py PEER PLAN DIRECTORY`, by the peer's own Python: the questions of the plan, gone on with where the
directory holds what an earlier process left, by the peer's own means, told to keep each answer as soon as it can."""

import json
import os
import sys
from pathlib import Path
from typing import Any

PLAN = json.loads(Path(os.environ["RESUME_PLAN"]).read_text())
QUESTIONS = [f"Is {number} so?" for number in range(PLAN["items"])]
AT_ONCE = 16

if "inspect_ai" in sys.argv[:2]:
    from inspect_ai import Epochs, Task, eval, eval_retry, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import list_eval_logs, read_eval_log
    from inspect_ai.scorer import exact
    from inspect_ai.solver import generate

    @task
    def questions() -> Task:
        samples = [Sample(input=one, target="yes", id=place) for place, one in enumerate(QUESTIONS)]
        return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=exact(), epochs=Epochs(PLAN["tries"]))


def run_inspect(place: Path) -> list[Any]:
    told: dict[str, Any] = {"max_connections": AT_ONCE, "max_samples": AT_ONCE, "log_buffer": 1, "display": "none"}
    logs = list_eval_logs(str(place / "logs")) if (place / "logs").exists() else []
    if logs:
        [log] = eval_retry(logs[0], log_dir=str(place / "logs"), **told)
    else:
        [log] = eval(
            f"{__file__}@questions", model="openai-api/stub/script", model_base_url=PLAN["url"],
            log_dir=str(place / "logs"), **told,
        )  # fmt: skip
    whole = read_eval_log(log.location)
    assert whole.status == "success", whole.error
    return sorted([one.id, one.epoch, one.scores["exact"].value] for one in whole.samples or () if one.scores)


def run_verifiers(place: Path) -> list[Any]:
    import verifiers
    from datasets import Dataset
    from verifiers.types import ClientConfig

    def is_right(completion: Any, answer: str, **_: Any) -> float:
        return float(completion[-1]["content"].strip() == answer)

    rows = [{"question": one, "answer": "yes"} for one in QUESTIONS]
    environment = verifiers.SingleTurnEnv(
        eval_dataset=Dataset.from_list(rows), rubric=verifiers.Rubric(funcs=[is_right])
    )
    told = environment.evaluate_sync(
        client=ClientConfig(api_base_url=PLAN["url"], api_key_var="STUB_KEY"), model="script",
        num_examples=len(rows), rollouts_per_example=PLAN["tries"], max_concurrent=AT_ONCE,
        results_path=place / "results", save_results=True, independent_scoring=True,
    )  # fmt: skip
    return sorted([one["example_id"], float(one["reward"])] for one in told["outputs"])


if __name__ == "__main__":
    os.environ |= {"STUB_API_KEY": "none", "STUB_KEY": "none"}
    directory = Path(sys.argv[3])
    directory.mkdir(exist_ok=True)
    runs = {"inspect_ai": run_inspect, "verifiers": run_verifiers}
    (directory / "out.json").write_text(json.dumps(runs[sys.argv[1]](directory)))
