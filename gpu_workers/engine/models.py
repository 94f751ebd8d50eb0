"""Models that the engine has loaded (the base, the base with a LoRA adapter), by the name they are asked for by."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

from gpu_workers.engine.batch import Model
from gpu_workers.engine.errors import AdapterRefusedError, InvalidRequestError, UnknownModelError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,199}")


@dataclass(eq=False)
class LoadedModel:
    """One version of the weights: the base, or the base with an adapter. It lives as long as a job holds it.

    Args:
        fingerprint: hex digest of the weights that make it what it is.
        path: directory it was read from.
        identity: of this very object; a fingerprint does not say at which scale an adapter is added.
    """

    name: str
    model: Model
    fingerprint: str
    path: str
    identity: bytes = field(default_factory=lambda: uuid4().bytes)


class ModelRegistry:
    """A base and its adapters. Any thread may ask for one, add one or take one away."""

    def __init__(self, base: LoadedModel) -> None:
        self._base = base
        self._by_name = {base.name: base}
        self._opening: set[str] = set()
        self._lock = threading.Lock()

    def now(self) -> dict[str, LoadedModel]:
        """What can be asked for now, the base first."""
        return dict(self._by_name)

    def find(self, name: str) -> LoadedModel:
        """The weights a name stands for now; whoever holds them keeps them. Raises UnknownModelError."""
        if (loaded := self._by_name.get(name)) is None:
            raise UnknownModelError(f"no model {name!r} is served; there are {', '.join(self._by_name)}", param="model")
        return loaded

    def add(self, name: str, open_model: Callable[[], LoadedModel]) -> LoadedModel:
        """Open an adapter and serve it under a name that nothing has now.

        Raises:
            AdapterRefusedError: the name is taken or unfit. What `open_model` raises.
        """
        require_name(name, param="lora_name")
        with self._lock:
            if name in self._by_name or name in self._opening:
                raise name_taken(name, param="lora_name")
            self._opening.add(name)
        try:
            loaded = open_model()
            with self._lock:
                self._by_name[name] = loaded
        finally:
            with self._lock:
                self._opening.discard(name)
        return loaded

    def remove(self, name: str) -> None:
        """Refuse the name from now on; requests already admitted end on the weights they started with."""
        with self._lock:
            if self._by_name.get(name) is self._base:
                raise InvalidRequestError(f"{name!r} is the base model and cannot be unloaded", param="lora_name")
            if self._by_name.pop(name, None) is None:
                raise UnknownModelError(f"no adapter {name!r} is loaded", param="lora_name")


def require_name(name: str, *, param: str) -> None:
    """Raises AdapterRefusedError unless this may be the name of an adapter or a step scorer."""
    if not _NAME.fullmatch(name):
        raise AdapterRefusedError(
            f"{param} must be up to 200 of letters, digits and ._@:- and start with a letter or digit; found "
            f"{name[:200]!r}",
            param=param,
        )


def name_taken(name: str, *, param: str) -> AdapterRefusedError:
    return AdapterRefusedError(
        f"the name {name!r} is taken; a version gets a name of its own", param=param, code="adapter_name_taken"
    )
