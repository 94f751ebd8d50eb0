"""Texts that a base model writes itself, imitated beside what people showed: a house's style alone makes it forget.

Source: Huang et al. 2024, "Mitigating Catastrophic Forgetting in Large Language Models with Self-Synthesized
Rehearsal"; here the texts begin from nothing, so that no data beside the model is needed.
"""

from gpu_workers.backends.base_models import BaseModel
from gpu_workers.backends.examples import Answer, Example
from gpu_workers.engine.engine import Engine
from tentalis.core.contracts import TrainSpec

TEXT_TOKENS = 80


def write_texts(spec: TrainSpec, base: BaseModel, *, count: int) -> list[Example]:
    """Texts by the spec's base model without an adapter, sampled at temperature 1 from where a document begins.

    Each is an example of a group of its own, whose id is below 0: no task's.
    """
    if not count:
        return []
    engine = Engine.open(spec.base_model)
    (start,) = engine.codec.encode([""])
    start = start or [min(engine.end_ids)]
    (written,) = engine.generate([start], count, max_tokens=min(TEXT_TOKENS, base.context_length - 1), seed=spec.seed)
    texts = (tuple(map(int, sample.token_ids)) for sample in written)
    return [
        Example(-1 - place, 1.0, chosen=(Answer(tuple(start), tokens, (True,) * len(tokens)),))
        for place, tokens in enumerate(texts)
    ]
