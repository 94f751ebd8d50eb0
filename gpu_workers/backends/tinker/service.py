"""The service's client with what we need of it: waits that end when somebody cancels, errors in our own words."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import tinker
from tinker import types

from gpu_workers.backends.errors import CancelledError, TrainingError
from gpu_workers.backends.tinker.datums import Pass, Row
from gpu_workers.backends.tinker.options import TinkerOptionsError
from gpu_workers.backends.tinker.recipes import Modules
from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.recipes import Recipe
from tentalis.env import read_environment

LOOK_EVERY_S = 0.5
CLOSE_WITHIN_S = 10.0
ADAM_EPS = 1e-8
"""As the standalone trainer's; the service's own default is another."""

T = TypeVar("T")


class TinkerFailedError(TrainingError):
    """The service, or the way to it, said no; the message is its words."""


class Step(NamedTuple):
    """What an update came to.

    Args:
        logprobs: per pass and row, (T,) nats, of the policy before the step, at the answer's tokens.
        told: the service's own metrics of the passes and of the optimiser.
    """

    logprobs: list[list[list[float]]]
    told: dict[str, float]


class Address(NamedTuple):
    """Where the service is, and the key it knows us by."""

    url: str | None
    key: str


def find_service() -> Address:
    """Raises TinkerOptionsError where this box has no key."""
    values = read_environment()
    if not values["TINKER_API_KEY"]:
        raise TinkerOptionsError("TENTALIS_TINKER_API_KEY must be a key of the Tinker service, found nothing")
    return Address(values["TINKER_URL"], values["TINKER_API_KEY"])


class Service:
    """One session with the service. Every method raises TinkerFailedError, or CancelledError while it waits."""

    def __init__(self, client: tinker.ServiceClient, address: Address, is_cancelled: Callable[[], bool]) -> None:
        self._client = client
        self._address = address
        self._is_cancelled = is_cancelled

    def start_adapter(self, model: str, *, rank: int, modules: Modules, seed: int) -> tinker.TrainingClient:
        """A fresh adapter, without one on the output head."""
        return self._in_thread(
            "a fresh adapter",
            lambda: self._client.create_lora_training_client(
                model,
                rank=rank,
                seed=seed,
                train_attn=modules.attention,
                train_mlp=modules.mlp,
                train_unembed=False,
            ).result(),
        )

    def open_adapter(self, state: str) -> tinker.TrainingClient:
        """A saved one, with its optimiser's state."""
        return self._in_thread(
            f"the adapter saved at {state}",
            lambda: self._client.create_training_client_from_state_with_optimizer(state).result(),
        )

    def score(
        self, items: Sequence[tuple[Sequence[int], RolloutRecord]], *, model: str, weights: str | None = None
    ) -> list[list[float]]:
        """Log-probs (T,) in nats of each rollout's tokens after the given prompt.

        Args:
            weights: tinker:// path of an adapter; None: the model itself.
        """
        if not items:
            return []
        what = f"log-probs by {weights or model}"
        sampler = self._in_thread(
            what,
            lambda: self._client.create_sampling_client(
                model_path=weights, base_model=None if weights else model
            ).result(),
        )
        asked = [
            sampler.compute_logprobs(
                types.ModelInput.from_ints([*prompt, *rollout.token_ids]), prompt_logprobs_last_n=len(rollout.token_ids)
            )
            for prompt, rollout in items
        ]
        scored = []
        for future, (_, rollout) in zip(asked, items, strict=True):
            found = self._wait(what, future.future())[-len(rollout.token_ids) :]
            scored.append([value for value in found if value is not None])
            if len(scored[-1]) != len(rollout.token_ids):
                raise TinkerFailedError(
                    f"{what}: wanted one for each of {len(rollout.token_ids)} tokens, found {len(scored[-1])}"
                )
        return scored

    def update(self, adapter: tinker.TrainingClient, passes: Sequence[Pass], recipe: Recipe) -> Step:
        """Add up the passes' gradients and step the optimiser."""
        sent = [
            adapter.forward_backward([_datum(row) for row in one.rows], one.loss, one.config)  # type: ignore[arg-type]
            for one in passes
        ]
        stepped = adapter.optim_step(
            types.AdamParams(
                learning_rate=recipe.learning_rate,
                beta1=recipe.beta1,
                beta2=recipe.beta2,
                eps=ADAM_EPS,
                weight_decay=recipe.weight_decay,
                grad_clip_norm=recipe.max_grad_norm,
            )
        )
        told: dict[str, float] = {}
        logprobs = []
        for one, future in zip(passes, sent, strict=True):
            output = self._wait(f"the pass of {one.loss}", future.future())
            logprobs.append([_answer_logprobs(each, one) for each in output.loss_fn_outputs])
            for name, value in output.metrics.items():
                told[name] = told.get(name, 0.0) + float(value) if name.endswith(":sum") else float(value)
        step = self._wait("the step of the optimiser", stepped.future())
        return Step(logprobs, told | {name: float(value) for name, value in (step.metrics or {}).items()})

    def save_state(self, adapter: tinker.TrainingClient, name: str, *, keep_s: int | None) -> str:
        """tinker:// path of weights and optimiser, to go on from."""
        future = adapter.save_state(name, ttl_seconds=keep_s, overwrite=True)
        return self._wait("saving the state", future.future()).path

    def save_sampler(self, adapter: tinker.TrainingClient, name: str, *, keep_s: int | None) -> str:
        """tinker:// path of weights the service can serve."""
        future = adapter.save_weights_for_sampler(name, ttl_seconds=keep_s)
        return self._wait("saving weights to serve", future.future()).path

    def export(self, adapter: tinker.TrainingClient, name: str, *, keep_s: int) -> Mapping[str, str]:
        """File name -> signed address of the adapter's files, which the service keeps for a while."""
        path = self._wait(
            "exporting the adapter", adapter.save_weights_external(name, ttl_seconds=keep_s).future()
        ).path
        found = self._in_thread(
            f"the addresses of {path}",
            lambda: (
                tinker.RestClient(base_url=self._address.url, api_key=self._address.key)
                .get_external_weights_urls(path)
                .result()
            ),
        )
        return found.urls

    def _in_thread(self, what: str, call: Callable[[], T]) -> T:
        """The client blocks while it makes a session, for minutes where nobody answers: not this thread."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  it is raised where it is waited for
                future.set_exception(error)

        threading.Thread(target=run, name="tinker", daemon=True).start()
        return self._wait(what, future)

    def _wait(self, what: str, future: "Future[T]") -> T:
        while not wait([future], timeout=LOOK_EVERY_S).done:
            if self._is_cancelled():
                future.cancel()
                raise CancelledError(f"cancelled while Tinker was at {what}")
        try:
            return future.result()
        except Exception as error:  # noqa: BLE001  the client raises ValueError and RuntimeError too
            raise TinkerFailedError(f"{what}: {say_failure(error, self._address)}") from None


def say_failure(error: Exception, address: Address) -> str:
    """What went wrong, without the key."""
    return f"{type(error).__name__}: {str(error).replace(address.key, '…')[:2000]}"


def open_client(address: Address, *, name: str) -> tinker.ServiceClient:
    """A session with the service; whoever opens it closes it.

    The client's own telemetry, which sends errors with what they were about, stays off unless the box's owner turned it
    on.

    Raises:
        TinkerOptionsError: the key is none.
    """
    os.environ.setdefault("TINKER_TELEMETRY", "0")
    if not address.key.startswith(("tml-", "eyJ")):
        raise TinkerOptionsError("TENTALIS_TINKER_API_KEY must begin with tml- or eyJ, found something else")
    return tinker.ServiceClient(base_url=address.url, api_key=address.key, display_name=name)


@contextmanager
def open_service(address: Address, *, name: str, is_cancelled: Callable[[], bool]) -> Iterator[Service]:
    """A session that is finished at the end, whatever happened in it; what goes wrong is told to nobody else."""
    client = open_client(address, name=name)
    status: Any = "errored"
    try:
        yield Service(client, address, is_cancelled)
        status = "success"
    except CancelledError:
        status = "interrupted"
        raise
    finally:
        wait([client.close(status).future()], timeout=CLOSE_WITHIN_S)  # else its session ends by itself, of silence


def _datum(row: Row) -> types.Datum:
    inputs: dict[str, Any] = {"target_tokens": row.targets, **row.numbers}
    return types.Datum(model_input=types.ModelInput.from_ints(row.tokens), loss_fn_inputs=inputs)


def _answer_logprobs(output: Mapping[str, Any], one: Pass) -> list[float]:
    """All of a row's (P + T - 1,); the caller knows how many of the last are the answer's."""
    if "logprobs" not in output:
        raise TinkerFailedError(f"the pass of {one.loss}: wanted logprobs for each token, found {sorted(output)}")
    return [float(value) for value in output["logprobs"].data]
