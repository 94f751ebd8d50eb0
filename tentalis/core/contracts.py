"""What crosses the wire between the web side and the training box: frozen, versioned, checked on arrival."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from tentalis.core.canon import content_hash
from tentalis.core.checked import MistypedError, require_typed

TRAIN_SPEC_SCHEMA = "tentalis.train-spec/1"
TRAIN_RESULT_SCHEMA = "tentalis.train-result/1"
ROLLOUT_SCHEMA = "tentalis.rollout/1"
PAIR_SCHEMA = "tentalis.pair/2"
PAIR_OF_ONE_SCHEMA = "tentalis.pair/1"
"""Of pairs of one sequence a side, which are read still."""
DEMONSTRATION_SCHEMA = "tentalis.demonstration/1"
MANIFEST_SCHEMA = "tentalis.adapter-manifest/1"
LABELLED_STEPS_SCHEMA = "tentalis.labelled-steps/1"
HEAD_MANIFEST_SCHEMA = "tentalis.head-manifest/1"


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
        policy_version: of that adapter, counted along its line of adapters (0 for the base model); staleness is
            counted in it.
        messages: the conversation the attempt answered: [{"role", "content"}, ...], as its caller sent it.
        rendering: what it was rendered with besides (`tentalis.core.rendering`): tools, template arguments, when.
        hinted_messages: the same with the hint in it, for the frozen teacher; None when there is no hint.
        hint_fault: why there is none although a hint was given; "" otherwise.
        prompt_token_ids: (P,) exactly as the engine saw them.
        token_ids: (T,) exactly as the engine returned them, tool results included.
        temperature: at which the policy sampled, > 0; `logprobs` and `top_logprobs` are those of its softmax, and
            whoever trains on them divides the logits by it.
        logprobs: (T,) natural log, behaviour policy at that temperature; 0.0 where `sampled` is False.
        sampled: (T,) True where the policy chose the token, False for tool results.
        reward: outcome in [0, 1]; None when nobody could judge it.
        steps: scored spans in order.
        missing_steps: steps a complete answer would have had beyond those present; each counts as a score of 0.
        weight: trust in the judgement, or in who gave the hint where `reward` is None, in [0, 1]; multiplies the
            rollout's advantages.
        hint_weight: trust in who gave the hint, in [0, 1]; multiplies what the teacher who reads it says. None:
            `weight`, of a batch that was written before the two were told apart.
        candidate_hints: (m,) further conversations with other hints in them, for the top-K hybrid to choose from;
            `hinted_messages` is the first of them where there are any.
        top_token_ids, top_logprobs: (T, K) the behaviour policy's K likeliest tokens at each position and their
            log-probs in nats, as the engine returned them; None where it was not asked.
        is_cut: the answer ended where its length ran out, not where the policy ended it.
    """

    rollout_id: int
    group_id: int
    adapter: str
    policy_version: int
    messages: Sequence[Mapping[str, Any]]
    hinted_messages: Sequence[Mapping[str, Any]] | None
    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    logprobs: Sequence[float]
    sampled: Sequence[bool]
    reward: float | None
    steps: Sequence[StepReward] = ()
    missing_steps: int = 0
    weight: float = 1.0
    candidate_hints: Sequence[Sequence[Mapping[str, Any]]] = ()
    top_token_ids: Sequence[Sequence[int]] | None = None
    top_logprobs: Sequence[Sequence[float]] | None = None
    rendering: Mapping[str, Any] = field(default_factory=dict)
    hint_fault: str = ""
    temperature: float = 1.0
    is_cut: bool = False
    hint_weight: float | None = None
    schema: str = ROLLOUT_SCHEMA

    def __post_init__(self) -> None:
        size = len(self.token_ids)
        tops = (self.top_token_ids, self.top_logprobs)
        if (tops[0] is None) != (tops[1] is None) or any(top is not None and len(top) != size for top in tops):
            raise ContractError(
                f"rollout {self.rollout_id}: top_token_ids and top_logprobs come together, one entry per token"
            )
        for name in ("logprobs", "sampled"):
            if len(getattr(self, name)) != size:
                raise ContractError(
                    f"rollout {self.rollout_id}: {name} has {len(getattr(self, name))} entries, token_ids has {size}"
                )
        if not 0.0 < self.temperature < math.inf:
            raise ContractError(f"rollout {self.rollout_id}: temperature must be above 0, found {self.temperature}")
        if self.reward is not None and not 0.0 <= self.reward <= 1.0:
            raise ContractError(f"rollout {self.rollout_id}: reward must lie in [0, 1], found {self.reward}")
        for step in self.steps:
            if not 0 <= step.start <= step.end <= size:
                raise ContractError(
                    f"rollout {self.rollout_id}: step span [{step.start}, {step.end}) is outside 0..{size}"
                )

    @property
    def trust_in_hint(self) -> float:
        """What the teacher who reads the hint is multiplied by, in [0, 1]."""
        return self.weight if self.hint_weight is None else self.hint_weight

    def to_json(self) -> dict[str, Any]:
        """Its fields, lists as they are: copying every token of them costs more than writing them."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return values | {"steps": [dict(vars(step)) for step in self.steps]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        values = _fields(cls, data, ROLLOUT_SCHEMA)
        values["steps"] = tuple(StepReward(**step) for step in values.get("steps", ()))
        values["candidate_hints"] = tuple(values.get("candidate_hints", ()))
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class AnswerRecord:
    """One sequence of a side of a pair: what a policy answered to one prompt, in one call or in several that go on.

    Args:
        token_ids: (T,) end token included; empty where nobody sampled it: the trainer encodes `text` itself.
        counts: (T,) True where a token counts (False for tool results).
        text: of an answer that nobody sampled, without its end token; "" for tokens.
        prompt_token_ids: (P,) what it answers, exactly as the engine saw it; empty: the pair's.
        logprobs: (T,) nats, in files of earlier versions. Nothing is learnt from them: the trainer computes the
            reference's with the adapter it continues from.
    """

    token_ids: Sequence[int] = ()
    counts: Sequence[bool] = ()
    text: str = ""
    prompt_token_ids: Sequence[int] = ()
    logprobs: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True)
class PairRecord:
    """Two attempts at one task, the first preferred (one JSON line each).

    Args:
        pair_id: row id, for tracing.
        group_id: the task's id; held-out splits go by it.
        source: where the preference comes from: attempts, choice, edit, supervision, ensemble or imported.
        prompt_token_ids: (P,) what both answer, exactly as the engine saw it; empty: the trainer encodes `messages`.
        chosen, rejected: each side's sequences in order, one at least. A side is as likely as all of them together:
            log-probs are summed over every counted token of all.
        weight: trust in the preference, in [0, 1].
    """

    pair_id: int
    group_id: int
    source: str
    messages: Sequence[Mapping[str, str]]
    prompt_token_ids: Sequence[int]
    chosen: Sequence[AnswerRecord]
    rejected: Sequence[AnswerRecord]
    weight: float = 1.0
    schema: str = PAIR_SCHEMA

    def __post_init__(self) -> None:
        for side in ("chosen", "rejected"):
            answers: Sequence[AnswerRecord] = getattr(self, side)
            if not answers:
                raise ContractError(f"pair {self.pair_id}: wanted an answer in {side}, found none")
            for place, answer in enumerate(answers):
                where, size = f"pair {self.pair_id}: {side}[{place}]", len(answer.token_ids)
                if bool(size) == bool(answer.text):
                    found = "both" if size else "neither"
                    raise ContractError(f"{where}: wanted either token_ids or text, found {found}")
                for name in ("counts", "logprobs"):
                    value = getattr(answer, name)
                    if value is not None and len(value) != size:
                        raise ContractError(f"{where}: {name} has {len(value)} entries, token_ids has {size}")

    @property
    def is_of_one(self) -> bool:
        """Whether each side is one sequence, behind the prompt that both answer."""
        return all(len(side) == 1 and not side[0].prompt_token_ids for side in (self.chosen, self.rejected))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        if data.get("schema") == PAIR_OF_ONE_SCHEMA:
            data = _read_pair_of_one(data)
        values = _fields(cls, data, PAIR_SCHEMA)
        for side in ("chosen", "rejected"):
            values[side] = tuple(AnswerRecord(**answer) for answer in values[side])
        return cls(**values)


def _read_pair_of_one(data: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the earlier schema, in which a side was one sequence and its fields were the pair's."""
    names = {"token_ids": "token_ids", "sampled": "counts", "logprobs": "logprobs", "answer": "text"}
    values: dict[str, Any] = dict(data) | {"schema": PAIR_SCHEMA}
    for side in ("chosen", "rejected"):
        known = {name: f"{side}_{old}" for old, name in names.items()}
        values[side] = [{name: values.pop(old) for name, old in known.items() if old in values}]
    return values


@dataclass(frozen=True, kw_only=True)
class DemonstrationRecord:
    """One answer to imitate (one JSON line each). Imitation's loss is a mean over tokens, so that an attempt of several
    sequences is a record for each.

    Args:
        demonstration_id: row id, for tracing; the same in all records of an attempt.
        group_id: the task's id; held-out splits go by it.
        source: edit (a manager's corrected answer), guided (a supervised trajectory), attempt, or audit (the word of a
            judgement that turned out right).
        token_ids: (T,) the answer, end token included; empty: the trainer encodes `answer` itself.
        counts: (T,) True where a token is to be imitated.
        weight: trust, in [0, 1].
    """

    demonstration_id: int
    group_id: int
    source: str
    messages: Sequence[Mapping[str, str]]
    answer: str
    prompt_token_ids: Sequence[int] = ()
    token_ids: Sequence[int] = ()
    counts: Sequence[bool] = ()
    weight: float = 1.0
    schema: str = DEMONSTRATION_SCHEMA

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.token_ids):
            raise ContractError(
                f"demonstration {self.demonstration_id}: counts has {len(self.counts)} entries, "
                f"token_ids has {len(self.token_ids)}"
            )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**_fields(cls, data, DEMONSTRATION_SCHEMA))


@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """One training job: everything the box needs, nothing it has to look up.

    Args:
        run_id, attempt: a result that does not carry both of the row's is dropped.
        worker: the worker the adapter is for.
        base_model: "desk" for the built-in model, else a directory.
        parent_adapter_uri: file:// directory of the adapter to continue from; None starts a fresh one.
        parent_sha256: what the parent's manifest must hash to; None with no parent.
        policy_version: of the parent, counted along its line (0 without one); rollout staleness is measured against it.
        latest_version: no rollout of a later one may train; None: of the parent's. A training that is done again
            without somebody may continue an earlier adapter than the rollouts are of.
        rollouts_uri: file:// JSONL of what the recipe's algorithm learns from: RolloutRecord, PairRecord or
            DemonstrationRecord; LabelledStepsRecord for a reward model.
        rollouts_sha256: hex digest of that file.
        recipe: `Recipe.to_json()`, stored whole.
        output_uri: file:// directory for this attempt's artifacts; a file `cancel` in it stops the run.
        seed: for every random choice of the run.
        purpose: policy, reward_model or manager: what is to come out.
        resume_uri: file:// directory of a checkpoint of an earlier attempt at this very run to go on from; None: from
            the start.
        tracking: writers of the run's curves and their settings, {"tensorboard": {…}, …}; empty: none.
        options: what the backend alone understands (addresses, sizes); empty: its own.
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
    purpose: str = "policy"
    latest_version: int | None = None
    resume_uri: str | None = None
    tracking: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: str = TRAIN_SPEC_SCHEMA

    @property
    def content_hash(self) -> str:
        return content_hash(self._list_fields())

    @property
    def work_hash(self) -> str:
        """Content hash of what decides the weights: the same for every attempt at a run, resumed or not."""
        around = {"attempt", "output_uri", "resume_uri", "tracking"}
        return content_hash({name: value for name, value in self._list_fields().items() if name not in around})

    def to_json(self) -> dict[str, Any]:
        return self._list_fields() | {"content_hash": self.content_hash}

    def _list_fields(self) -> dict[str, Any]:
        """Without `latest_version` where it is None: older boxes do not know the field."""
        fields = dataclasses.asdict(self)
        if self.latest_version is None:
            del fields["latest_version"]
        return fields

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ContractError for an unknown schema, a missing, unknown or mistyped field, or a hash that differs."""
        body = {key: value for key, value in data.items() if key != "content_hash"}
        spec = cls(**_typed_fields(cls, body, TRAIN_SPEC_SCHEMA))
        if "content_hash" in data and data["content_hash"] != spec.content_hash:
            raise ContractError(f"content_hash is {data['content_hash']!r}, the spec hashes to {spec.content_hash!r}")
        return spec


class Outcome(StrEnum):
    """What became of a training: a refused one failed its trainer's own check; to cancel or pause was asked for."""

    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a training job came to. A failed training is a result, not an exception.

    Args:
        error_type, error_message: why it is not done; "" where it is.
        adapter_uri, sha256: the adapter's directory and the SHA-256 of its manifest file; "" when not done.
        metrics: one mapping per optimiser update, oldest first; names carry units (`tokens_per_s`).
        summary: the whole run in a few numbers.
        notes: what the numbers alone do not say, in words: why a hint did not count, and the like.
        versions: package -> version that computed it.
        tracking: writer -> {"uri"} where its curves lie, or {"error"}: why there are none.
    """

    run_id: int
    attempt: int
    outcome: Outcome
    error_type: str = ""
    error_message: str = ""
    adapter_uri: str = ""
    sha256: str = ""
    metrics: Sequence[Mapping[str, float]] = ()
    summary: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    tracking: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    schema: str = TRAIN_RESULT_SCHEMA

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.DONE

    @property
    def reason(self) -> str:
        """Why it is not done, in words."""
        return self.error_message if self.outcome is Outcome.REFUSED else f"{self.error_type}: {self.error_message}"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"ok": self.ok}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read a result, also one of an older box, which says `ok` and the error's name but no outcome."""
        if isinstance(data, Mapping):
            data = {name: value for name, value in data.items() if name != "ok"} | {"outcome": _read_outcome(data)}
        return cls(**_typed_fields(cls, data, TRAIN_RESULT_SCHEMA))


def _read_outcome(data: Mapping[str, Any]) -> Outcome:
    said, ok = data.get("outcome"), data.get("ok")
    if isinstance(said, str) and said in set(Outcome):
        return Outcome(said)
    if "outcome" in data or not isinstance(ok, bool):
        raise ContractError(f"outcome must be one of {', '.join(Outcome)}, found {ascii(said)[:60]}")
    asked = {"UnfitAdapterError": Outcome.REFUSED, "CancelledError": Outcome.CANCELLED, "PausedError": Outcome.PAUSED}
    return Outcome.DONE if ok else asked.get(str(data.get("error_type")), Outcome.FAILED)


@dataclass(frozen=True, kw_only=True)
class ManifestEntry:
    """What a manifest says of one file beside it: lower-case hex SHA-256, and its length."""

    sha256: str
    size_bytes: int


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
    def from_json(cls, data: object) -> Self:
        return cls(**_typed_fields(cls, data, MANIFEST_SCHEMA))


@dataclass(frozen=True, kw_only=True)
class LabelledStep:
    """One step of an answer as a step scorer learns from it.

    Args:
        step_id: row id, for tracing.
        start, end: token span [start, end) inside the record's `token_ids`, not empty.
        label: what to learn, in [0, 1]; None: nothing.
        weight: how much the label counts, in [0, 1].
        truth: an audited score in [0, 1] (a world's verification, or a trusted person's); None where nobody audited.
    """

    step_id: int
    start: int
    end: int
    label: float | None
    weight: float = 1.0
    truth: float | None = None


@dataclass(frozen=True, kw_only=True)
class LabelledStepsRecord:
    """One attempt with its steps' labels, as a step scorer learns from it (one JSON line each).

    Args:
        attempt_id: row id, for tracing.
        group_id: the task's id.
        split: train, or calibrate (its truths only fit the calibration curve).
        prompt_token_ids: (P,); token_ids: (T,) exactly as the engine returned them, tool results included.
        steps: by rising place.
    """

    attempt_id: int
    group_id: int
    split: str
    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    steps: Sequence[LabelledStep]
    schema: str = LABELLED_STEPS_SCHEMA

    def __post_init__(self) -> None:
        if self.split not in ("train", "calibrate"):
            raise ContractError(f"attempt {self.attempt_id}: split must be train or calibrate, found {self.split!r}")
        for step in self.steps:
            if not 0 <= step.start < step.end <= len(self.token_ids):
                raise ContractError(
                    f"attempt {self.attempt_id}: step span [{step.start}, {step.end}) is empty or outside "
                    f"0..{len(self.token_ids)}"
                )
            for name in ("label", "weight", "truth"):
                value = getattr(step, name)
                if value is not None and not 0.0 <= value <= 1.0:
                    raise ContractError(f"step {step.step_id}: {name} must lie in [0, 1], found {value}")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        values = _fields(cls, data, LABELLED_STEPS_SCHEMA)
        values["steps"] = tuple(LabelledStep(**step) for step in values["steps"])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class HeadManifest:
    """What the directory of a trained step scorer says of itself (`manifest.json`, canonical JSON).

    Args:
        base_sha256: over the safetensors files of the model whose hidden states it reads.
        width: of those states; features: of what the head reads of a step; hidden: units of its first layer.
        slope, offset: its calibration: P(good) = sigmoid(slope * logit + offset).
        files: file name -> {"sha256", "size_bytes"} of every other file in the directory.
    """

    base_model: str
    base_sha256: str
    run_id: int
    attempt: int
    recipe_hash: str
    steps_sha256: str
    width: int
    features: int
    hidden: int
    slope: float
    offset: float
    files: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    schema: str = HEAD_MANIFEST_SCHEMA

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Self:
        return cls(**_typed_fields(cls, data, HEAD_MANIFEST_SCHEMA))


def _typed_fields(cls: type[Any], data: object, schema: str) -> dict[str, Any]:
    """The fields of what came from elsewhere, each of its type; `files` with what is said of each.

    Raises:
        ContractError: it is no such object.
    """
    if not isinstance(data, Mapping):
        raise ContractError(f"{cls.__name__} must be an object, found {type(data).__name__}")
    values = _fields(cls, data, schema)
    try:
        require_typed(cls, values)
        for name, entry in values.get("files", {}).items():
            require_typed(ManifestEntry, {"sha256": None, "size_bytes": None} | dict(entry))
            if not name or "/" in name or "\0" in name or name in (".", ".."):
                raise ContractError(f"{cls.__name__}: files must be plain names, found {ascii(name)[:60]}")
    except MistypedError as error:
        raise ContractError(f"{cls.__name__}: {error}") from None
    return values


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
