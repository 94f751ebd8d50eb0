"""A Tinker service on loopback: its wire format (JSON, protobuf, futures) around a real small trainer.

It trains low-rank tensors of a small model by the losses as the service documents them, sums over tokens, and samples
by the engine from what an export holds. The service's own client talks to it; nothing of the backend under test is used
to train. Requests are kept as they came.
"""

import copy
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import torch
from safetensors.torch import save
from tinker.proto import tinker_public_pb2 as wire
from torch import Tensor

from gpu_workers.backends.adapter_files import start_adapter, weight_names
from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.micro_batches import pack_items
from gpu_workers.engine import Engine
from tests.gpu_workers.learning.training_factory import tiny_model
from tests.local_server import LocalHandler, LocalServer

MODEL = "tiny/base"
KEY = "tml-the-key-of-the-tests"
SIGNATURE = "signed-for-the-tests"
ATTENTION, MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
Optimizer = torch.optim.AdamW


@dataclass
class Adapter:
    """Low-rank tensors under training."""

    rank: int
    modules: list[str]
    weights: dict[str, Tensor]
    optimizer: Optimizer


@dataclass
class Datum:
    """A datum as it was sent; every input is as long as `tokens`."""

    tokens: list[int]
    inputs: dict[str, list[float]]


@dataclass
class Sent:
    """A request for a forward and a backward pass."""

    loss: str
    config: dict[str, float]
    data: list[Datum]


@dataclass
class TinkerServer:
    """What a test may look at and set.

    Args:
        model: "desk", or the directory of the model that it knows as MODEL; "" for the tests' small one.
        alpha: what the service scales its adapters by, over the rank.
        fails: kind of request -> the words its futures fail with; category: whose fault that is.
        holds: kinds whose futures never come.
        passes, steps: what was sent; requests: every path with its JSON body.
        files: what an export is made of, by name; a test may change it.
    """

    model: str = ""
    alpha: float = 32.0
    url: str = ""
    fails: dict[str, str] = field(default_factory=dict)
    category: str = "user"
    holds: set[str] = field(default_factory=set)
    refuses: dict[str, int] = field(default_factory=dict)
    passes: list[Sent] = field(default_factory=list)
    steps: list[dict[str, float]] = field(default_factory=list)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    leaves_out: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.base = load_base(self.model or str(tiny_model()))
        self.engine = Engine.open(self.model or str(tiny_model()), name=MODEL)
        self.adapters: dict[str, Adapter] = {}
        self.saved: dict[str, tuple[dict[str, Tensor], dict[str, Any], int, list[str]]] = {}
        self.samplers: dict[str, str | None] = {}
        self.futures: dict[str, tuple[str, bytes | dict[str, Any]]] = {}
        self.asked: Counter[tuple[int, ...]] = Counter()
        self.lock = threading.Lock()

    # --- the service ---------------------------------------------------------------------------------------------

    def answer(self, path: str, query: Mapping[str, list[str]], body: bytes, kind: str) -> tuple[int, str, bytes]:
        """Status, content type and body of an answer."""
        name = path.removeprefix("/api/v1/")
        sent: Any = json.loads(body) if body and "json" in kind else None
        if name != "retrieve_future":
            self.requests.append((name, sent))
        if name in self.refuses:
            return self.refuses[name], "application/json", b'{"detail": "not for you"}'
        if path == "/oai/api/v1/models":
            return _json({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if path.startswith("/files/"):
            if query.get("signature") != [SIGNATURE]:
                return 403, "text/plain", b"unsigned"
            return 200, "application/octet-stream", self.export(*path.removeprefix("/files/").split("/"))
        if name == "retrieve_future":
            return self.retrieve(sent["request_id"])
        if name == "create_sampling_session" and (sent.get("model_path") or "") not in {"", *self.saved}:
            return 404, "application/json", b'{"detail": "no such checkpoint"}'
        with self.lock:
            if name == "forward_backward":
                return _json(self.promise(name, self.forward_backward(body)))
            made = getattr(self, name, None)
            if made is not None and name in FUTURES:
                return _json(self.promise(name, made(sent), (sent or {}).get("num_samples", 1)))
        if name.endswith("/external_weights_urls"):
            model, _, rest = name.removeprefix("training_runs/").partition("/checkpoints/")
            saved = f"tinker://{model}/{rest.removesuffix('/external_weights_urls')}"
            files = {"adapter_config.json", "adapter_model.safetensors"} - self.leaves_out
            key = self.saved_key(saved)
            urls = {file: f"{self.url}/files/{key}/{file}?signature={SIGNATURE}" for file in files}
            return _json({"urls": urls, "expires": "2099-01-01T00:00:00Z"})
        return _json(self.plain(name, sent))

    def plain(self, name: str, sent: Any) -> dict[str, Any]:
        """Requests that are answered at once."""
        if name == "create_session":
            return {"type": "create_session", "session_id": "session-1"}
        if name == "create_sampling_session":
            known = f"sampler-{len(self.samplers) + 1}"
            self.samplers[known] = sent.get("model_path")
            return {"type": "create_sampling_session", "sampling_session_id": known}
        if name == "get_info":
            adapter = self.adapters[sent["model_id"]]
            about = {"arch": "qwen2", "model_name": MODEL, "tokenizer_id": "none"}
            return {
                "type": "get_info",
                "model_data": about,
                "model_id": sent["model_id"],
                "is_lora": True,
                "lora_rank": adapter.rank,
                "model_name": MODEL,
            }
        if name.startswith("samplers/"):
            return {"sampler_id": name.rpartition("/")[2], "base_model": MODEL, "model_path": None}
        if name == "session_heartbeat":
            return {"type": "session_heartbeat"}
        if name == "telemetry":
            return {"status": "accepted"}
        return {}

    def promise(self, kind: str, value: bytes | dict[str, Any], choices: int = 1) -> dict[str, Any]:
        known = f"request-{len(self.futures) + 1}"
        if kind in self.fails:
            value = {"error": self.fails[kind], "category": self.category}
        self.futures[known] = (kind, value)
        if kind == "asample":
            return {"request_id": known, "sample_sequence_ids": [f"{known}-{place}" for place in range(choices)]}
        return {"request_id": known}

    def retrieve(self, known: str) -> tuple[int, str, bytes]:
        kind, value = self.futures[known]
        if kind in self.holds:
            time.sleep(0.02)  # the service holds a poll for a while too
            return _json({"type": "try_again", "request_id": known, "queue_state": "active"})
        return _json(value) if isinstance(value, dict) else (200, "application/x-protobuf", value)

    # --- training ------------------------------------------------------------------------------------------------

    def create_model(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        lora = sent["lora_config"]
        names = [*(ATTENTION if lora["train_attn"] else ()), *(MLP if lora["train_mlp"] else ())]
        linears = self.base.find_linears(names)
        fresh = start_adapter(linears, rank=lora["rank"], seed=lora["seed"])
        self.open_model("model-1", fresh.weights, lora["rank"], sorted(linears))
        return {"type": "create_model", "model_id": "model-1"}

    def open_model(self, model: str, weights: Mapping[str, Tensor], rank: int, modules: list[str]) -> None:
        mine = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
        self.adapters[model] = Adapter(rank, modules, mine, Optimizer(mine.values()))

    def load_weights(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        model = f"{sent['session_id']}:train:{sent['model_seq_id']}"
        weights, state, rank, modules = self.saved[sent["path"]]
        self.open_model(model, weights, rank, modules)
        if sent["optimizer"]:
            self.adapters[model].optimizer.load_state_dict(copy.deepcopy(state))
        return {"type": "load_weights", "path": sent["path"]}

    def forward_backward(self, body: bytes) -> bytes:
        request = wire.ForwardBackwardRequest()
        request.ParseFromString(body)
        data = [
            Datum(
                [int(one) for chunk in datum.model_input for one in _numbers(chunk.encoded_text.tokens, np.int32)],
                {
                    name: list(_numbers(tensor.dense, np.int64 if tensor.dtype == wire.DTYPE_INT64 else np.float32))
                    for name, tensor in datum.loss_fn_inputs.items()
                },
            )
            for datum in request.data
        ]
        sent = Sent(request.loss_fn, dict(request.loss_fn_config), data)
        self.passes.append(sent)
        adapter = self.adapters[request.model_id]
        scored = self.score([([one.tokens[0]], _targets(one)) for one in data], adapter)
        loss = torch.stack([_loss(sent, one, found) for one, found in zip(data, scored, strict=True)]).sum()
        torch.autograd.backward(loss)
        output = wire.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
        held = output.loss_fn_outputs.add(num_datums=len(data)).fields["logprobs"]
        held.dtype = wire.DTYPE_FLOAT32
        held.data = torch.cat(scored).detach().numpy().tobytes()
        held.offsets = (np.cumsum([0, *(len(found) for found in scored)]) * 4).astype(np.int64).tobytes()
        output.metrics["loss:sum"] = float(loss.detach())
        return bytes(output.SerializeToString())

    def optim_step(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        params = sent["adam_params"]
        self.steps.append(params)
        adapter = self.adapters[sent["model_id"]]
        limit = params["grad_clip_norm"] or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(adapter.weights.values(), limit))
        for group in adapter.optimizer.param_groups:
            group.update(
                lr=params["learning_rate"],
                betas=(params["beta1"], params["beta2"]),
                eps=params["eps"],
                weight_decay=params["weight_decay"],
            )
        adapter.optimizer.step()
        adapter.optimizer.zero_grad(set_to_none=True)
        return {"metrics": {"optim/grad_norm": norm}}

    def asample(self, sent: Mapping[str, Any]) -> bytes:
        """Answers to a prompt, and its own log-probs where they are asked for."""
        tokens = [token for chunk in sent["prompt"]["chunks"] for token in chunk["tokens"]]
        weights = self.samplers[sent["sampling_session_id"]]
        answer = wire.SampleResponse(sequences=self.draw(sent, tokens, weights))
        if sent.get("prompt_logprobs"):
            answer.prompt_logprobs = self.score_prompt(tokens, weights, sent.get("prompt_logprobs_last_n"))
        return bytes(answer.SerializeToString())

    def draw(self, sent: Mapping[str, Any], prompt: list[int], weights: str | None) -> list[wire.SampledSequence]:
        """Answers as the service's sampler draws them: no end but those that are asked for.

        Another draw each time, and the same ones in every run of a test, whatever comes first.
        """
        params = sent["sampling_params"]
        name = None if weights is None else f"weights-{self.saved_key(weights)}"
        if name is not None and name not in self.engine.models.now():
            self.engine.load_adapter(name, self.write_export(str(weights)))
        k = sent.get("topk_sample_logprobs") or 0
        self.asked[tuple(prompt)] += 1
        ((*samples,),) = self.engine.generate(
            [prompt],
            sent["num_samples"],
            adapter=name,
            max_tokens=params["max_tokens"],
            temperature=params.get("temperature", 1.0),
            top_p=params.get("top_p", 1.0),
            top_k=max(0, params.get("top_k", -1)),
            stop_token_ids=frozenset(params.get("stop") or ()),
            ignores_eos=True,
            top_logprobs=k or None,
            seed=int.from_bytes(blake2b(f"{self.asked[tuple(prompt)]} {prompt}".encode(), digest_size=7).digest()),
        )
        drawn = []
        for sample in samples:
            reason = wire.STOP_REASON_STOP if sample.finish_reason == "stop" else wire.STOP_REASON_LENGTH
            one = wire.SampledSequence(stop_reason=reason, tokens=np.array(sample.token_ids, np.int32).tobytes())
            one.logprobs = np.array(sample.logprobs, np.float32).tobytes()
            if sample.top:
                ids, values = np.array(sample.top).transpose(2, 0, 1)  # T K each
                likeliest = one.topk_sampled_logprobs
                likeliest.token_ids, likeliest.logprobs = ids.astype(np.int32).tobytes(), values.astype("f4").tobytes()
                likeliest.k, likeliest.length = k, len(sample.top)
            drawn.append(one)
        return drawn

    def write_export(self, weights: str) -> Path:
        """The adapter of a checkpoint as PEFT's two files."""
        directory = Path(mkdtemp(prefix="tinker-export-"))
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            (directory / file).write_bytes(self.export(self.saved_key(weights), file))
        return directory

    def score_prompt(self, tokens: list[int], weights: str | None, last: int | None) -> bytes:
        """Log-probs of a prompt's last tokens; None: of all but the first."""
        adapter = None
        if weights is not None:
            found, state, rank, modules = self.saved[weights]
            adapter = Adapter(rank, modules, found, state)  # type: ignore[arg-type]
        with torch.no_grad():
            (scored,) = self.score([(tokens[:1], tokens[1:])], adapter)
        whole = np.concatenate([[np.nan], scored.numpy()]).astype(np.float32)
        whole[: -last if last else 0] = np.nan
        return whole.tobytes()

    def score(self, items: Sequence[tuple[list[int], list[int]]], adapter: Adapter | None) -> list[Tensor]:
        """Log-probs of each second part after its first."""
        changes = {}
        for module in adapter.modules if adapter else ():
            a, b = weight_names(module)
            assert adapter is not None
            changes[module] = LowRank(adapter.weights[a], adapter.weights[b], self.alpha / adapter.rank)
        scored: dict[int, Tensor] = {}
        for batch, members in pack_items(items, self.base):
            parts = torch.split(self.base.score(batch, changes).logprobs, list(batch.sizes))
            scored.update(zip(members, parts, strict=True))
        return [scored[index] for index in range(len(items))]

    # --- what is kept --------------------------------------------------------------------------------------------

    def save_weights(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "save_weights", "path": self.keep(sent, "weights")}

    def save_weights_for_sampler(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "save_weights_for_sampler", "path": self.keep(sent, "sampler_weights")}

    def save_weights_external(self, sent: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "save_weights_external", "path": self.keep(sent, "external_weights")}

    def keep(self, sent: Mapping[str, Any], kind: str) -> str:
        adapter = self.adapters[sent["model_id"]]
        path = f"tinker://{sent['model_id']}/{kind}/{sent['path']}"
        weights = {name: tensor.detach().clone() for name, tensor in adapter.weights.items()}
        state = copy.deepcopy(adapter.optimizer.state_dict())
        self.saved[path] = (weights, state, adapter.rank, adapter.modules)
        return path

    def saved_key(self, path: str) -> str:
        return str(list(self.saved).index(path))

    def export(self, key: str, file: str) -> bytes:
        weights, _, rank, _ = list(self.saved.values())[int(key)]
        if file == "adapter_config.json":
            return json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": self.alpha, "bias": "none"}).encode()
        return save({f"base_model.model.{name}": tensor for name, tensor in weights.items()})


FUTURES = frozenset(
    {
        "create_model",
        "load_weights",
        "optim_step",
        "asample",
        "save_weights",
        "save_weights_for_sampler",
        "save_weights_external",
    }
)


def _loss(sent: Sent, one: Datum, found: Tensor) -> Tensor:
    """The losses as the service documents them, each a sum over the tokens."""
    inputs = {name: torch.tensor(values) for name, values in one.inputs.items()}
    if sent.loss == "cross_entropy":
        return -(found * inputs["weights"]).sum()
    ratio = (found - inputs["logprobs"]).exp()
    clipped = ratio.clamp(sent.config["clip_low_threshold"], sent.config["clip_high_threshold"])
    if sent.loss == "cispo":
        return -(clipped.detach() * found * inputs["advantages"]).sum()
    assert sent.loss == "ppo"
    return -torch.minimum(ratio * inputs["advantages"], clipped * inputs["advantages"]).sum()


def _targets(one: Datum) -> list[int]:
    return [int(token) for token in one.inputs["target_tokens"]]


def _numbers(data: bytes, kind: Any) -> Iterator[Any]:
    return iter(np.frombuffer(data, kind).tolist())


def _json(value: Mapping[str, Any]) -> tuple[int, str, bytes]:
    return 200, "application/json", json.dumps(value).encode()


@contextmanager
def serve(server: TinkerServer) -> Iterator[TinkerServer]:
    """Serve on a port of the system's choice until the block ends."""

    class Handler(LocalHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            body = self.read()
            server.keys.add(self.headers.get("X-API-Key") or self.headers.get("Authorization") or "")
            where = urlsplit(self.path)
            try:
                status, kind, answer = server.answer(
                    where.path, parse_qs(where.query), body, self.headers.get("Content-Type", "")
                )
            except Exception as error:
                status, kind, answer = 422, "application/json", json.dumps({"detail": repr(error)}).encode()
            self.answer(status, answer, Content_Type=kind)

        do_POST = do_GET = handle_request  # noqa: N815  the names http.server calls

    with LocalServer(Handler) as local:
        server.url = local.url
        yield server
