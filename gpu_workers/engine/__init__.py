"""The local inference engine: continuous batching over one base model and many LoRA adapters, in vLLM's dialect.

`python -m gpu_workers.engine --model desk --port 8300` serves it; `Engine` is the same in-process.
"""

from gpu_workers.engine.engine import Engine
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.jobs import Sample, SamplingOptions

__all__ = ["Engine", "EngineError", "Sample", "SamplingOptions"]
