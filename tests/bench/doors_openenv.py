"""Run by openenv-core's Python: its own client plays what stands in a file, and writes what came of each.

`doors_openenv.py URL PLAN OUT`; nothing of Tentalis is imported.
"""

import json
import sys
from pathlib import Path

from openenv.core import GenericEnvClient  # type: ignore[import-not-found]  # the peer's own Python has it


def main(url: str, plan: str, out: str) -> None:
    came = []
    with GenericEnvClient(base_url=url).sync() as environment:
        for one in json.loads(Path(plan).read_text()):
            said = environment.reset(prompt=one["prompt"], seed=one["seed"])
            for name, arguments in one["calls"]:
                said = environment.step({"type": "call_tool", "tool_name": name, "arguments": arguments})
                if said.done:
                    break
            for answer in one["answers"]:
                if not said.done:
                    said = environment.step({"answer": answer})
            came.append({"done": said.done, "reward": said.reward})
    Path(out).write_text(json.dumps(came))


if __name__ == "__main__":
    main(*sys.argv[1:])
