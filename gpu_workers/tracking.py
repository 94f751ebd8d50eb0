"""Curves of a run for tools people know: TensorBoard, MLflow, Weights & Biases, as the spec asks.

A run does not fail for its curves: a writer whose library is missing, or that cannot write, is told with the result in
words. Credentials are the tools' own variables on the box (MLFLOW_TRACKING_TOKEN, WANDB_API_KEY), never in the spec.
"""

import logging
import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tentalis.core.contracts import TrainResult, TrainSpec

PROJECT = "tentalis"
LONGEST_PARAM = 500

logger = logging.getLogger(__name__)


class TrackingError(Exception):
    """Curves that cannot be written; the message says which setting is wrong, or what is missing."""


class Writer(Protocol):
    """One tool's writer; whatever it raises is written down, and the writer is not asked again."""

    @property
    def address(self) -> str:
        """Where the curves lie."""

    def write(self, update: int, metrics: Mapping[str, float]) -> None: ...

    def close(self, result: TrainResult) -> None: ...


class Tracking:
    """All writers of a run.

    Attributes:
        kept: writer -> {"uri"} where it writes, or {"error"}: why it does not.
    """

    def __init__(self, spec: TrainSpec, output: Path) -> None:
        """Open the writers that the spec asks for."""
        self.kept: dict[str, dict[str, str]] = {}
        self._writers: dict[str, Writer] = {}
        self._written: set[int] = set()
        for name, settings in spec.tracking.items():
            self._try(name, partial(self._open, name, spec, output, settings))

    def write(self, metrics: Mapping[str, float]) -> None:
        """Write an update's metrics, once each."""
        update = int(metrics.get("update", 0))
        if update in self._written:
            return
        self._written.add(update)
        numbers = {
            name: float(value)
            for name, value in metrics.items()
            if name not in ("update", "updates") and math.isfinite(value)
        }
        for name, writer in list(self._writers.items()):
            self._try(name, partial(writer.write, update, numbers))

    def close(self, result: TrainResult) -> dict[str, dict[str, str]]:
        """Write what was not yet, updates of earlier attempts too, and end; where all of it lies."""
        for metrics in result.metrics:
            self.write(metrics)
        for name, writer in list(self._writers.items()):
            self._try(name, partial(writer.close, result))
        return self.kept

    def _open(self, name: str, spec: TrainSpec, output: Path, settings: Mapping[str, Any]) -> None:
        if name not in WRITERS:
            raise TrackingError(f"nobody writes for {name!r}; wanted {', '.join(WRITERS)}")
        self._writers[name] = writer = WRITERS[name](spec, output, settings)
        self.kept[name] = {"uri": writer.address}

    def _try(self, name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            logger.warning("no curves for %s", name, exc_info=True)
            self._writers.pop(name, None)
            self.kept[name] = {"error": f"{type(error).__name__}: {error}"[:500]}


class TensorBoardWriter:
    """Event files under the run's own directory; no settings."""

    def __init__(self, spec: TrainSpec, output: Path, settings: Mapping[str, Any]) -> None:
        del spec
        _require_known(settings)
        directory = output / "tensorboard"
        self.address = directory.as_uri()
        self._events = _load("tensorboardX", "tensorboardX").SummaryWriter(str(directory), flush_secs=5)

    def write(self, update: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._events.add_scalar(f"train/{name}", value, update)

    def close(self, result: TrainResult) -> None:
        for name, value in result.summary.items():
            self._events.add_scalar(f"summary/{name}", value, len(result.metrics))
        self._events.close()


class MlflowWriter:
    """A run of an MLflow experiment. Settings: `tracking_uri` (default: a file store in the run's directory),
    `experiment`.
    """

    def __init__(self, spec: TrainSpec, output: Path, settings: Mapping[str, Any]) -> None:
        _require_known(settings, "tracking_uri", "experiment")
        where = str(settings.get("tracking_uri") or (output / "mlflow").as_uri())
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        if where.startswith("file:"):  # a directory of files wants to be asked for; a database wants all of MLflow
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        mlflow = _load("mlflow", "mlflow-skinny")
        self._client = mlflow.MlflowClient(tracking_uri=where)
        self._metric = _load("mlflow.entities", "mlflow-skinny").Metric
        name = str(settings.get("experiment", PROJECT))
        experiment = self._client.get_experiment_by_name(name)
        known = experiment.experiment_id if experiment else self._client.create_experiment(name)
        self._run = self._client.create_run(known, run_name=_name(spec)).info.run_id
        self.address = f"{where.rstrip('/')}#/experiments/{known}/runs/{self._run}"
        for field, value in _describe(spec).items():
            self._client.log_param(self._run, field, str(value)[:LONGEST_PARAM])

    def write(self, update: int, metrics: Mapping[str, float]) -> None:
        now_ms = 0  # a file store orders by step; the same run gives the same curves
        entries = [self._metric(f"train/{name}", value, now_ms, update) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=entries)

    def close(self, result: TrainResult) -> None:
        last = len(result.metrics)
        entries = [self._metric(f"summary/{name}", value, 0, last) for name, value in result.summary.items()]
        self._client.log_batch(self._run, metrics=entries)
        self._client.set_terminated(self._run, "FINISHED" if result.ok else "FAILED")


class WandbWriter:
    """A Weights & Biases run. Settings: `mode` (default offline: files under the run's directory, which
    `wandb sync` sends), `project`, `entity`.
    """

    def __init__(self, spec: TrainSpec, output: Path, settings: Mapping[str, Any]) -> None:
        _require_known(settings, "mode", "project", "entity")
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        wandb = _load("wandb", "wandb")
        mode = settings.get("mode", "offline")
        if mode not in ("offline", "online"):
            raise TrackingError(f"wandb.mode must be offline or online, found {mode!r}")
        output.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=settings.get("project", PROJECT),
            entity=settings.get("entity"),
            name=_name(spec),
            dir=str(output),
            mode=mode,
            config=_describe(spec),
            reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, disable_job_creation=True
            ),
        )
        self.address = str(self._run.url) if mode == "online" else Path(self._run.dir).parent.as_uri()

    def write(self, update: int, metrics: Mapping[str, float]) -> None:
        self._run.log({f"train/{name}": value for name, value in metrics.items()}, step=update)

    def close(self, result: TrainResult) -> None:
        self._run.summary.update({f"summary/{name}": value for name, value in result.summary.items()})
        self._run.finish(exit_code=0 if result.ok else 1)


WRITERS: Mapping[str, Callable[[TrainSpec, Path, Mapping[str, Any]], Writer]] = MappingProxyType(
    {"tensorboard": TensorBoardWriter, "mlflow": MlflowWriter, "wandb": WandbWriter}
)


def _load(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise TrackingError(f"wanted the package {package} on this box, found none ({error})") from None


def _require_known(settings: Mapping[str, Any], *known: str) -> None:
    if unknown := sorted(set(map(str, settings)) - set(known)):
        raise TrackingError(f"there is no setting {', '.join(unknown)}; there are {', '.join(known) or 'none'}")


def _name(spec: TrainSpec) -> str:
    return f"run {spec.run_id}.{spec.attempt} of {spec.worker}"


def _describe(spec: TrainSpec) -> dict[str, Any]:
    """What a person looks for beside the curves."""
    about = {"worker": spec.worker, "run": spec.run_id, "attempt": spec.attempt, "backend": spec.backend}
    about |= {"base_model": spec.base_model, "seed": spec.seed, "spec": spec.content_hash, "work": spec.work_hash}
    return about | {f"recipe.{name}": value for name, value in spec.recipe.items()}
