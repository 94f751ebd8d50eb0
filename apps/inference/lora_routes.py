"""Adapters on a model server: vLLM's routes, which our engine has too, with its refusals told apart in words."""

import re
from collections.abc import Mapping
from typing import Any

from apps.inference.errors import (
    AdapterNameTakenError,
    AdapterNotLoadedError,
    ProviderAnswerError,
    ProviderBusyError,
    ProviderRefusedError,
)
from apps.inference.transport import Transport

NAME_TAKEN = "adapter_name_taken"
VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM's `--max-lora-rank` may be."""
_RANK = re.compile(r"rank (\d+) is greater than max_lora_rank (\d+)")
_FAULT = "add_lora method failed"
_LORA_INFO = re.compile(r"^vllm:lora_requests_info\{(?P<labels>[^}]*)\} (?P<time>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w{1,100})="([^"]*)"')


HOW_TO_LOAD = "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
_NOBODYS = "tentalis-looks-whether-adapters-load"


class LoraRoutes:
    """What one server serves adapters by. Every call raises as `ModelClient`'s do."""

    def __init__(self, transport: Transport, base_url: str) -> None:
        self._transport = transport
        self._base_url = base_url

    def find_directories(self) -> dict[str, str]:
        """Name -> directory it was loaded from, base models among them; "" where the server does not say."""
        return {name: str(card.get("root") or "") for name, card in self.find_cards().items()}

    def find_cards(self) -> dict[str, dict[str, Any]]:
        """Name -> what the server says of that model."""
        answer = self._transport.call_api("GET", "/models")
        try:
            return {str(model["id"]): dict(model) for model in answer["data"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ProviderAnswerError(
                f"{self._base_url}: wanted a list of models, found {str(answer)[:200]}"
            ) from error

    def load(self, name: str, path: str) -> None:
        """Serve the adapter in `path` as `name`; loaded already from there is loaded.

        Never in place: vLLM would go on in the middle of an answer with other weights, and keep the old ones' prefixes.

        Raises:
            AdapterNameTakenError: something else has the name.
            AdapterNotLoadedError: the server does not see the directory, or cannot serve what is in it.
            ProviderBusyError: also where somebody else is just loading it.
        """
        try:
            self._transport.call_api("POST", "/load_lora_adapter", {"lora_name": name, "lora_path": path})
        except ProviderRefusedError as error:
            served = self.find_directories()
            if name in served:
                if served[name] != path:
                    raise _say_taken(error, name, path, served[name]) from error
                return
            if error.server_code == NAME_TAKEN:
                raise ProviderBusyError(f"{self._base_url}: {name} is being loaded") from error
            raise _explain(error, path) from error
        except ProviderBusyError as error:
            if error.http_status == 500 and (words := _explain_breakdown(str(error))):
                raise AdapterNotLoadedError(f"{words}. {error}", http_status=500) from error
            raise

    def unload(self, name: str) -> None:
        """Forget a name; what runs already ends on the weights it began with. Unknown already is unloaded."""
        try:
            self._transport.call_api("POST", "/unload_lora_adapter", {"lora_name": name})
        except ProviderRefusedError:
            if name in self.find_directories():
                raise

    def can_load(self) -> bool:
        """Whether the routes are there: a server that has them knows that it never heard of a name."""
        try:
            self._transport.call_api("POST", "/unload_lora_adapter", {"lora_name": _NOBODYS})
        except ProviderRefusedError as error:
            return bool(error.server_code) or error.http_status not in {404, 405}
        return True

    def find_busy(self) -> frozenset[str]:
        """Adapters with requests running or waiting, as vLLM counts them; none of a server that has no such metric, or
        stands behind a proxy that shows none.

        Each combination of names is a series of its own, and its value is when it was last so: the newest holds.
        """
        try:
            text = self._transport.call_server("GET", "/metrics")
        except ProviderRefusedError as error:
            if error.http_status != 404:
                raise
            return frozenset()
        found = list(_LORA_INFO.finditer(text)) if isinstance(text, str) else []
        if not found:
            return frozenset()
        labels: Mapping[str, str] = dict(_LABEL.findall(max(found, key=lambda one: float(one["time"]))["labels"]))
        names = ",".join((labels.get("running_lora_adapters", ""), labels.get("waiting_lora_adapters", "")))
        return frozenset(name for name in names.split(",") if name)


def _say_taken(error: ProviderRefusedError, name: str, path: str, loaded_from: str) -> AdapterNameTakenError:
    words = f"{name} is taken by what was loaded from {loaded_from or 'nobody knows where'}: wanted {path}"
    return AdapterNameTakenError(
        f"{words}; a name is never given to other weights. {error}",
        loaded_from=loaded_from,
        server_code=error.server_code,
        http_status=error.http_status,
    )


def _explain(error: ProviderRefusedError, path: str) -> ProviderRefusedError:
    """A refusal while nothing has the name, with what to do about it."""
    own: dict[str, Any] = {"server_code": error.server_code, "http_status": error.http_status}
    if error.http_status != 404:
        return error
    if error.server_code == "404" or "No adapter found" in str(error):
        return AdapterNotLoadedError(
            f"the server does not see {path}: it must be there under that path. {error}", **own
        )
    words = f"the server has no such route: {HOW_TO_LOAD}"
    return AdapterNotLoadedError(f"{words}. {error}", **own)


def _explain_breakdown(words: str) -> str:
    """What a 500 of vLLM means that will be the same next time; "" where a later try may succeed."""
    if found := _RANK.search(words):
        wanted = next((size for size in VLLM_RANKS if size >= int(found[1])), None)
        how = f"start it with --max-lora-rank {wanted}" if wanted else f"it serves {VLLM_RANKS[-1]} at most"
        return f"the adapter's rank of {found[1]} is larger than the server takes: {how}"
    return "the server cannot serve this adapter" if _FAULT in words else ""
