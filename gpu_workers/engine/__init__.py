"""The local inference engine: continuous batching over one base model and many LoRA adapters, in vLLM's dialect.

`python -m gpu_workers.engine --model desk --port 8300` serves it; `Engine` is the same in-process. It is imported when
it is asked for: what only reads a checkpoint's shape needs nothing of a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_workers.engine.engine import Engine
    from gpu_workers.engine.errors import EngineError
    from gpu_workers.engine.jobs import Sample, SamplingOptions

__all__ = ["Engine", "EngineError", "Sample", "SamplingOptions"]
_HOMES = {"Engine": "engine", "EngineError": "errors", "Sample": "jobs", "SamplingOptions": "jobs"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
