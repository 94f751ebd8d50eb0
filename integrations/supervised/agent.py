"""An agent that asks before it acts: the whole loop in one file, to read and to copy from.

    TENTALIS_TOKEN=tnt_… python integrations/supervised/agent.py --url http://127.0.0.1:8000 --task 7 plan.json

The plan is what the agent wants to do, step by step, in the words of `POST /api/v1/proposals`:

    [{"kind": "tool", "tool": "lookup", "arguments": {"order": 4131}},
     {"kind": "tool", "tool": "refund", "arguments": {"order": 4131, "amount": 84.5}},
     {"kind": "answer", "text": "The money is on its way."}]

A real agent makes its next step up as it goes; what matters here is what it does with each word it is given. The
tools are pretended: replace `use_tool`.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tentalis.client import Client

WAIT_S = 20

Action = dict[str, Any]
Tool = Callable[[Action], str]


class TaskFailedError(Exception):
    """Nobody decided in time, and the worker's rule fails the task then."""


def use_tool(action: Action) -> str:
    """Pretend to act; what the tool said."""
    return f"{action['tool']} done with {json.dumps(action['arguments'])}"


def ask(client: Client, task: int, action: Action, *, step: int, context: str) -> dict[str, Any]:
    """Propose one action and wait for the word on it, however long that takes."""
    proposal = client.propose(task=task, action=action, step_index=step, context=context)
    while proposal["outcome"] == "wait":
        proposal = client.get_proposal(proposal["id"], wait_s=WAIT_S)
    return proposal


def rethink(action: Action, hint: str) -> Action | None:
    """What a hint makes of an action; None: leave it. A real agent asks its model here, with the hint."""
    return None


def work(client: Client, task: int, plan: Sequence[Action], *, use: Tool = use_tool) -> dict[str, Any]:
    """Do a task under supervision and hand it in.

    Returns:
        The attempt.
    Raises:
        TaskFailedError: the task has failed while we waited.
    """
    steps: list[dict[str, str]] = []
    waiting: list[Action] = list(plan)
    answer = ""
    while waiting:
        action = waiting.pop(0)
        context = "\n".join(f"{step['text']}\n{step.get('tool_result', '')}" for step in steps)
        word = ask(client, task, action, step=len(steps), context=context)
        outcome, decision = word["outcome"], word["decision"]
        if outcome == "go_on":
            done = word["permitted"]
            if done["kind"] == "answer":
                answer = done["text"]
                steps.append({"kind": "answer", "text": answer})
            elif done["kind"] == "message":
                steps.append({"kind": "step", "text": done["text"]})
            else:
                call = f"{done['tool']} {json.dumps(done['arguments'])}"
                steps.append({"kind": "call", "text": call, "tool_name": done["tool"], "tool_result": use(done)})
        elif outcome == "stop":
            steps.append({"kind": "step", "text": f"Left out, as I was told: {decision.get('reason', 'no time')}"})
        elif outcome == "ask_again":
            steps.append({"kind": "step", "text": f"Thought again: {decision['hint']}"})
            if (better := rethink(action, decision["hint"])) is not None:
                waiting.insert(0, better)
        elif outcome == "hand_over":
            answer, waiting = decision["answer"], []
            steps.append({"kind": "answer", "text": answer})
        else:
            raise TaskFailedError(f"task {task} failed: nobody decided proposal {word['id']} in time")
    return client.submit_attempt(task=task, steps=steps, answer=answer or "I could not finish this.")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Do a task step by step, asking before each.")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--task", type=int, required=True)
    parser.add_argument("plan", type=Path, help="JSON file with the actions")
    given = parser.parse_args(arguments)
    plan = json.loads(given.plan.read_text(encoding="utf-8"))
    with Client(given.url, os.environ["TENTALIS_TOKEN"]) as client:
        attempt = work(client, given.task, plan)
    sys.stdout.write(f"task {given.task} is handed in as attempt {attempt['id']}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
