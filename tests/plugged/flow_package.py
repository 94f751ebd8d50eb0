"""Agents of no framework at all: one that calls a tool, asks two sub-agents at a time, and has ways to fail."""

import json
import os
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def ask(config: Any, messages: list[Any], *, tools: bool = False) -> Any:
    body: dict[str, Any] = {"model": config.model, "messages": messages, "max_tokens": 64}
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if tools:
        function = {"name": "add", "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}
        body["tools"] = [{"type": "function", "function": function}]
    headers = {"Authorization": f"Bearer {config.api_key}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{config.base_url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)["choices"][0]["message"]


class Adder:
    """Adds with a tool, and has two others look at it meanwhile."""

    def run(self, task: Any, config: Any) -> None:
        messages = list(task.messages)
        said = ask(config, messages, tools=True)
        with ThreadPoolExecutor(2) as pool:
            looks = [[{"role": "user", "content": f"Reader {number}: {task.prompt}"}] for number in (1, 2)]
            list(pool.map(lambda one: ask(config, one), looks))
        messages.append(said)
        for call in said["tool_calls"]:
            numbers = json.loads(call["function"]["arguments"])
            result = str(numbers["a"] + numbers["b"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        ask(config, messages, tools=True)


class Odd:
    """Whatever its prompt says."""

    async def arun(self, task: Any, config: Any) -> Any:
        match task.prompt:
            case "answer":
                ask(config, list(task.messages))
                return "my own word"
            case "secrets":
                ask(config, list(task.messages))
                return ",".join(name for name in os.environ if name.startswith("TENTALIS_")) or "none"
            case "raise":
                ask(config, list(task.messages))
                raise ValueError("no more")
            case "nothing":
                raise ValueError("before anything")
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(600)
        return None
