"""What is known of a model by its files and by trying it out."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFacts:
    """What was seen of a model when this machine read it.

    Args:
        family: the config's model_type. dtype: of most weights on the disk, as safetensors calls it.
        parameters: numbers in its weights. context_tokens: of prompt and answer together; None: it does not say.
        is_fast: the engine's own forward computes it; else Hugging Face's does.
        memory_bytes: that the engine takes for its weights.
        tokens_per_s: that eight answers at a time are written with; is_measured: on this machine, else computed from
            how fast it reads memory, which is a bound from above. None: nobody looked.
    """

    family: str
    parameters: int
    context_tokens: int | None
    dtype: str
    is_fast: bool
    memory_bytes: int
    tokens_per_s: float | None = None
    is_measured: bool = False
