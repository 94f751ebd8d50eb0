"""A `verifiers` environment as a stranger would write it, and what its own runner makes of answers.

Imported by verifiers as a package with `load_environment()`. Run as `doors_verifiers.py PLAN OUT` by verifiers' Python,
its own runner plays what stands in the file, with a model that says just that.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers
from datasets import Dataset
from doors_items import ITEMS  # type: ignore[import-not-found]  # beside us on the path


def count_letters(word: str) -> str:
    """How many letters a word has.

    Args:
        word: which.
    """
    return str(len(word))


def load_environment() -> Any:
    rows = [{"question": f"How many letters has {item}?", "answer": str(len(item))} for item in ITEMS]

    def is_right(completion: Any, answer: str, **_: Any) -> float:
        return float(completion[-1]["content"].strip() == answer)

    def is_short(completion: Any, **_: Any) -> float:
        return float(len(completion[-1]["content"]) < 4)

    rubric = verifiers.Rubric(funcs=[is_right, is_short], weights=[0.8, 0.2])
    return verifiers.ToolEnv(dataset=Dataset.from_list(rows), tools=[count_letters], rubric=rubric, max_turns=4)


def main(plan: str, out: str) -> None:
    from bridge_environments import Connected  # type: ignore[import-not-found]  # on the path: the bridge's model

    environment = load_environment()
    rows = environment.get_dataset()

    async def play(one: dict[str, Any]) -> float:
        said: Iterator[dict[str, Any]] = iter(
            [
                {"tool_calls": [{"id": f"call_{place}", "name": name, "arguments": json.dumps(arguments)}]}
                for place, (name, arguments) in enumerate(one["calls"])
            ]
            + [{"content": answer} for answer in one["answers"]]
        )

        async def ask(prompt: Any, tools: Any) -> dict[str, Any]:
            return next(said)

        output = await environment.run_rollout(dict(rows[one["row"]]), Connected(ask), "scripted", {})
        return float(output["reward"])

    came = [asyncio.run(play(one)) for one in json.loads(Path(plan).read_text())]
    Path(out).write_text(json.dumps(came))


if __name__ == "__main__":
    main(*sys.argv[1:])
