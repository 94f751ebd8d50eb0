"""Step scorers beside the engine's model: heads loaded by name, read from the hidden states of its frozen base."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpu_workers.artifacts import ArtifactError
from gpu_workers.engine.errors import AdapterRefusedError, InvalidRequestError
from gpu_workers.engine.protocol import Fields
from gpu_workers.head_files import StoredHead, read_head
from gpu_workers.learning.reward_head import VIEWS, Span
from tentalis.core.scoring.platt import PlattCurve

MAX_ITEMS = 1_024
MAX_SPANS = 512


class AnsweredSteps(NamedTuple):
    """One answer and where its steps lie.

    Args:
        prompt_token_ids: (P,); token_ids: (T,) the answer, tool results included.
        spans: [start, end) in `token_ids`, none empty.
    """

    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    spans: Sequence[Span]


@dataclass(frozen=True)
class LoadedHead:
    """A head that may be asked for."""

    name: str
    path: str
    stored: StoredHead

    @property
    def curve(self) -> PlattCurve:
        return PlattCurve(self.stored.manifest.slope, self.stored.manifest.offset)


def open_head(name: str, directory: Path, *, base_sha256: str, width: int) -> LoadedHead:
    """Read a head and see that it was made for this base.

    Raises:
        AdapterRefusedError: it is broken, or reads another model's states.
    """
    try:
        stored = read_head(directory)
    except ArtifactError as error:
        raise AdapterRefusedError(str(error), param="head_path") from error
    manifest = stored.manifest
    if manifest.base_sha256 != base_sha256:
        raise AdapterRefusedError(
            f"the head reads the states of {manifest.base_sha256[:12]}, this engine's base is {base_sha256[:12]}",
            param="head_path",
        )
    if manifest.width != width or manifest.features != VIEWS * width:
        raise AdapterRefusedError(
            f"the head wants {manifest.features} features of states {manifest.width} wide, found {VIEWS * width} of "
            f"{width}",
            param="head_path",
        )
    return LoadedHead(name, str(directory), stored)


def read_score_request(body: object) -> tuple[str, list[AnsweredSteps]]:
    """Read the body of /v1/score_steps: {"head", "items": [{"prompt_token_ids", "token_ids", "steps"}, …]}.

    Raises:
        InvalidRequestError: a field is not what it must be; it is named.
    """
    fields = Fields(body)
    head, items = fields.string("head"), fields.take("items")
    fields.finish()
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        found = f"{len(items)} of them" if isinstance(items, list) else type(items).__name__
        raise InvalidRequestError(f"items must be a list of 1 to {MAX_ITEMS} answers, found {found}", param="items")
    return head, [_read_item(index, item) for index, item in enumerate(items)]


def _read_item(index: int, item: Any) -> AnsweredSteps:
    fields = Fields(item)
    prompt = fields.token_ids("prompt_token_ids", fields.take("prompt_token_ids"))
    tokens = fields.token_ids("token_ids", fields.take("token_ids"))
    spans = fields.take("steps")
    fields.finish()
    if not isinstance(spans, list) or len(spans) > MAX_SPANS:
        raise InvalidRequestError(f"items[{index}].steps must be a list of up to {MAX_SPANS} spans", param="steps")
    for span in spans:
        is_pair = isinstance(span, list) and len(span) == 2 and all(type(place) is int for place in span)
        if not is_pair or not 0 <= span[0] < span[1] <= len(tokens):
            raise InvalidRequestError(
                f"items[{index}].steps must hold [start, end) inside 0..{len(tokens)}, none empty; found {span!r:.80}",
                param="steps",
            )
    return AnsweredSteps(prompt, tokens, [(span[0], span[1]) for span in spans])


def write_scores(head: LoadedHead, logits: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The answer of /v1/score_steps: for each item its steps' calibrated probabilities and their raw logits."""
    return {
        "object": "list",
        "model": head.name,
        "fingerprint": head.stored.sha256,
        "data": [
            {"index": index, "scores": [head.curve.probability(logit) for logit in row], "logits": list(row)}
            for index, row in enumerate(logits)
        ],
    }


def write_heads(heads: Mapping[str, LoadedHead]) -> dict[str, Any]:
    """The answer of GET /v1/reward_heads."""
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "reward_head", "root": head.path, "fingerprint": head.stored.sha256}
            for name, head in heads.items()
        ],
    }
