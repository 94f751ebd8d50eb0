"""A model server that answers about adapters as vLLM 0.32 and 0.33 do; its words were taken down from a running one."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes import FakeModelServer

_WORKER = "Call to add_lora method failed: Worker failed with error {!r}, please check the stack trace above"


def error(status: int, kind: str, message: str) -> tuple[int, Any]:
    return status, {"error": {"message": message, "type": kind, "param": None, "code": status}}


@dataclass
class VllmStub(FakeModelServer):
    """Its log-probs are those of the weights that lie in the directory a name was loaded from.

    Args:
        max_lora_rank: as it was started with.
        allows_loading: whether VLLM_ALLOW_RUNTIME_LORA_UPDATING was set: without it there are no such routes.
        running, waiting: names with requests under way; they come back in /metrics.
        shows_metrics: whether /metrics can be asked: not where a proxy shows /v1 alone.
    """

    max_lora_rank: int = 16
    allows_loading: bool = True
    running: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    shows_metrics: bool = True

    def restart(self) -> None:
        """As a process that died and was started again."""
        self.models[:] = self.models[:1]
        self._paths.clear()

    def serve_instead(self, name: str, directory: Path) -> None:
        """Other weights under a name that is known, as an in-place load behind our back would do it."""
        self._paths[name] = str(directory)

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if path == "/metrics" and self.shows_metrics:
            return 200, self._write_metrics(), {"Content-Type": "text/plain; version=1.0.0; charset=utf-8"}
        status, answer, headers = super()._answer(path, body)
        if path.endswith("_lora_adapter") and status == 200 and self.mode == "ok":
            done = "added" if "lora_path" in body else "removed"
            answer = f"Success: LoRA adapter '{body['lora_name']}' {done} successfully."
            headers = {"Content-Type": ""}  # it says it is nothing at all
        return status, answer, headers

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path.endswith("_lora_adapter") and not self.allows_loading:
            return 404, {"detail": "Not Found"}
        if path == "/v1/load_lora_adapter":
            return self._load(body)
        if path == "/v1/unload_lora_adapter" and body["lora_name"] not in self.models[1:]:
            return error(404, "NotFoundError", f"The lora adapter '{body['lora_name']}' cannot be found.")
        return super()._serve(path, body)

    def _load(self, body: dict[str, Any]) -> tuple[int, Any]:
        name, path = body["lora_name"], Path(body["lora_path"])
        if name == self.models[0]:
            words = f"The lora adapter '{name}' conflicts with a served base model."
            return error(400, "InvalidUserInput", words)
        if name in self.models:
            words = f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set"
            return error(400, "InvalidUserInput", f"{words} 'load_inplace' to True.")
        if not (path / "adapter_config.json").is_file():
            return error(404, "NotFoundError", f"Loading lora {name} failed: No adapter found for {path}")
        config = json.loads((path / "adapter_config.json").read_text())
        if config["r"] > self.max_lora_rank:
            words = f"LoRA rank {config['r']} is greater than max_lora_rank {self.max_lora_rank}."
            return error(500, "InternalServerError", _WORKER.format(words))
        if unknown := [name for name in config["target_modules"] if not name.endswith("_proj") or "qq" in name]:
            words = f"While loading {path}, expected target modules in {{'q_proj', 'o_proj'}} but received {unknown}"
            return error(500, "InternalServerError", _WORKER.format(words))
        self.models.append(name)
        self._paths[name] = str(path)
        return 200, {}

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = super()._complete(body)
        for choice in answer["choices"]:
            if "logprobs" in choice:
                choice["logprobs"]["token_logprobs"] = [self._weigh(body, one) for one in choice["token_ids"]]
            if "prompt_logprobs" in choice:
                scored = [{token: {"logprob": self._weigh(body, int(token))}} for token in _tokens(choice)]
                choice["prompt_logprobs"] = [None, *scored]
        return answer

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = super()._chat(body)
        for choice in answer["choices"]:
            for token, entry in zip(choice["token_ids"], choice["logprobs"]["content"], strict=True):
                entry["logprob"] = self._weigh(body, token)
        return answer

    def _weigh(self, body: dict[str, Any], token: int) -> float:
        """The log-prob of a token under the weights behind a name."""
        directory = self._paths.get(body["model"])
        weights = (Path(directory) / "adapter_model.safetensors").read_bytes() if directory else b""
        return -1.0 - hashlib.sha256(weights + bytes([token % 256])).digest()[0] / 256

    def _write_metrics(self) -> str:
        labels = f'running_lora_adapters="{",".join(self.running)}",waiting_lora_adapters="{",".join(self.waiting)}"'
        return (
            "# TYPE vllm:lora_requests_info gauge\n"
            'vllm:lora_requests_info{max_lora="2",running_lora_adapters="old@v0",waiting_lora_adapters=""} 1.7e+09\n'
            f'vllm:lora_requests_info{{max_lora="2",{labels}}} 1.7952691047731674e+09\n'
            'vllm:num_requests_running{engine="0",model_name="desk"} 0.0\n'
        )


def _tokens(choice: dict[str, Any]) -> list[str]:
    return [token for entry in choice["prompt_logprobs"][1:] for token in entry]
