"""What crosses the wire between the web side and the training box: frozen, versioned, checked on arrival."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tentalis.core.canon import content_hash

TRAIN_SPEC_SCHEMA = "tentalis.train-spec/1"
TRAIN_RESULT_SCHEMA = "tentalis.train-result/1"
ROLLOUT_SCHEMA = "tentalis.rollout/1"
MANIFEST_SCHEMA = "tentalis.adapter-manifest/1"


class ContractError(ValueError):
    """A wire value is not what its schema says; the message names the field, what was wanted and what was found."""


@dataclass(frozen=True, kw_only=True)
class StepReward:
    """One scored step of a rollout.

    Args:
        start, end: token span [start, end) inside the rollout's `token_ids`.
        score: in [0, 1]; None when nobody could score the step.
        said: a person's word on exactly this step, in [0, 1], drawn towards `score` by the trust they lack; None: none.
    """

    start: int
    end: int
    score: float | None
    said: float | None = None


@dataclass(frozen=True, kw_only=True)
class RolloutRecord:
    """The exact tokens of one attempt, as the trainer reads them (one JSON line each).

    Args:
        rollout_id: row id, for tracing.
        group_id: the task's id; attempts at one task share it and are compared with each other.
        adapter: name of the adapter that produced it; "" for the base model.
        policy_version: version number of that adapter (0 for the base model); staleness is counted in it.
        messages: the conversation the attempt answered: [{"role", "content"}, ...].
        hinted_messages: the same with the hint in it, for the frozen teacher; None when there is no hint.
        prompt_token_ids: (P,) exactly as the engine saw them.
        token_ids: (T,) exactly as the engine returned them, tool results included.
        logprobs: (T,) natural log, behaviour policy at temperature 1; 0.0 where `sampled` is False.
        sampled: (T,) True where the policy chose the token, False for tool results.
        reward: outcome in [0, 1]; None when nobody could judge it.
        steps: scored spans in order.
        missing_steps: steps a complete answer would have had beyond those present; each counts as a score of 0.
        weight: trust in the judgement, in [0, 1]; multiplies the rollout's advantages.
    """

    rollout_id: int
    group_id: int
    adapter: str
    policy_version: int
    messages: Sequence[Mapping[str, str]]
    hinted_messages: Sequence[Mapping[str, str]] | None
    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    logprobs: Sequence[float]
    sampled: Sequence[bool]
    reward: float | None
    steps: Sequence[StepReward] = ()
    missing_steps: int = 0
    weight: float = 1.0
    schema: str = ROLLOUT_SCHEMA

    def __post_init__(self) -> None:
        size = len(self.token_ids)
        for name in ("logprobs", "sampled"):
            if len(getattr(self, name)) != size:
                raise ContractError(
                    f"rollout {self.rollout_id}: {name} has {len(getattr(self, name))} entries, token_ids has {size}"
                )
        if self.reward is not None and not 0.0 <= self.reward <= 1.0:
            raise ContractError(f"rollout {self.rollout_id}: reward must lie in [0, 1], found {self.reward}")
        for step in self.steps:
            if not 0 <= step.start <= step.end <= size:
                raise ContractError(
                    f"rollout {self.rollout_id}: step span [{step.start}, {step.end}) is outside 0..{size}"
                )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        values = _fields(cls, data, ROLLOUT_SCHEMA)
        values["steps"] = tuple(StepReward(**step) for step in values.get("steps", ()))
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """One training job: everything the box needs, nothing it has to look up.

    Args:
        run_id, attempt: a result that does not carry both of the row's is dropped.
        worker: the worker the adapter is for.
        base_model: "desk" for the built-in model, else a directory.
        parent_adapter_uri: file:// directory of the adapter to continue from; None starts a fresh one.
        parent_sha256: what the parent's manifest must hash to; None with no parent.
        policy_version: version number of the parent (0 without one); rollout staleness is measured against it.
        rollouts_uri: file:// JSONL of RolloutRecord.
        rollouts_sha256: hex digest of that file.
        recipe: `Recipe.to_json()`, stored whole.
        output_uri: file:// directory for this attempt's artifacts; a file `cancel` in it stops the run.
        seed: for every random choice of the run.
    """

    run_id: int
    attempt: int
    worker: str
    base_model: str
    parent_adapter_uri: str | None
    parent_sha256: str | None
    policy_version: int
    rollouts_uri: str
    rollouts_sha256: str
    recipe: Mapping[str, Any]
    seed: int
    output_uri: str
    backend: str = "standalone"
    schema: str = TRAIN_SPEC_SCHEMA

    @property
    def content_hash(self) -> str:
        return content_hash(dataclasses.asdict(self))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"content_hash": self.content_hash}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ContractError for an unknown schema, a missing or unknown field, or a hash that does not match."""
        body = {key: value for key, value in data.items() if key != "content_hash"}
        spec = cls(**_fields(cls, body, TRAIN_SPEC_SCHEMA))
        if "content_hash" in data and data["content_hash"] != spec.content_hash:
            raise ContractError(f"content_hash is {data['content_hash']!r}, the spec hashes to {spec.content_hash!r}")
        return spec


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a training job came to. A failed training is a result with `ok` False, not an exception.

    Args:
        adapter_uri, sha256: the adapter's directory and the SHA-256 of its manifest file; "" when not ok.
        metrics: one mapping per optimiser update, oldest first; names carry units (`tokens_per_s`).
        summary: the whole run in a few numbers.
        versions: package -> version that computed it.
    """

    run_id: int
    attempt: int
    ok: bool
    error_type: str = ""
    error_message: str = ""
    adapter_uri: str = ""
    sha256: str = ""
    metrics: Sequence[Mapping[str, float]] = ()
    summary: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: str = TRAIN_RESULT_SCHEMA

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**_fields(cls, data, TRAIN_RESULT_SCHEMA))


@dataclass(frozen=True, kw_only=True)
class AdapterManifest:
    """What an adapter directory says of itself (`manifest.json`, canonical JSON).

    Args:
        files: file name -> {"sha256", "size_bytes"} of every other file in the directory.
        parent_sha256: manifest hash of the adapter it continues; "" for a first one.
    """

    worker: str
    base_model: str
    base_sha256: str
    parent_sha256: str
    run_id: int
    attempt: int
    recipe_hash: str
    rollouts_sha256: str
    rank: int
    alpha: float
    target_modules: Sequence[str]
    files: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    schema: str = MANIFEST_SCHEMA

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**_fields(cls, data, MANIFEST_SCHEMA))


def _fields(cls: type[Any], data: Mapping[str, Any], schema: str) -> dict[str, Any]:
    found = data.get("schema")
    if found != schema:
        raise ContractError(f"schema must be {schema!r}, found {found!r}")
    known = {item.name: item for item in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(known)):
        raise ContractError(f"{cls.__name__} has no field {', '.join(unknown)}; it knows {', '.join(known)}")
    required = {
        name
        for name, item in known.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    }
    if missing := sorted(required - set(data)):
        raise ContractError(f"{cls.__name__} lacks {', '.join(missing)}")
    return dict(data)
