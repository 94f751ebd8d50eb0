"""Spec in, result out: one training from start to end, whatever happens in it."""

import dataclasses
import json
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path

from gpu_workers.artifacts import ArtifactError, path_from_uri, write_file
from gpu_workers.backends import find_backend
from gpu_workers.backends.errors import CancelledError, DivergedError, PausedError, TrainingError, UnfitAdapterError
from gpu_workers.tracking import Tracking
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import ContractError, Outcome, TrainResult, TrainSpec

RESULT_FILE = "result.json"
SPEC_FILE = "spec.json"
CANCEL_FILE = "cancel"
PAUSE_FILE = "pause"

logger = logging.getLogger(__name__)


def run(
    spec: TrainSpec,
    report: Callable[[Mapping[str, float]], None],
    sign: Callable[[TrainResult], None] | None = None,
) -> TrainResult:
    """Train one spec and write `result.json` into its output directory.

    A failure is a result with its reason, never an exception. A spec whose result lies there already is
    not trained again: a message that arrives twice costs nothing.

    Args:
        report: called with each update's metrics.
        sign: called with the result before it is written, to leave word beside it of who made it; None by hand.
    """
    try:
        output = path_from_uri(spec.output_uri)
        if (earlier := _read_earlier(output, spec)) is not None:
            return earlier
        write_file(output / SPEC_FILE, canonical_json(spec.to_json()))
        tracking = Tracking(spec, output)

        told: list[Mapping[str, float]] = []

        def tell(metrics: Mapping[str, float]) -> None:
            told.append(dict(metrics))
            tracking.write(metrics)
            report(metrics)

        result = _train(spec, output, tell)
        if not result.ok and not result.metrics:  # what was measured stays, whatever became of the training
            result = dataclasses.replace(result, metrics=[row for row in told if all(map(math.isfinite, row.values()))])
        result = require_numbers(result, spec)
        result = dataclasses.replace(result, tracking=tracking.close(result))
        if sign is not None:
            sign(result)
        write_file(output / RESULT_FILE, canonical_json(result.to_json()))
    except (ArtifactError, ContractError) as error:
        return _failure(spec, error)
    return result


def _train(spec: TrainSpec, output: Path, report: Callable[[Mapping[str, float]], None]) -> TrainResult:
    cancel, pause = output / CANCEL_FILE, output / PAUSE_FILE
    try:
        trained = find_backend(spec.backend, purpose=spec.purpose)(
            spec, output=output, report=report, is_cancelled=lambda: cancel.exists() or pause.exists()
        )
    except CancelledError as error:
        if cancel.exists() or not pause.exists():
            return _failure(spec, error)
        return _failure(spec, PausedError(pause.read_text() or str(error)))
    except UnfitAdapterError as error:
        return dataclasses.replace(_failure(spec, error), metrics=error.metrics, summary=error.summary)
    except Exception as error:
        logger.warning("run %d attempt %d failed", spec.run_id, spec.attempt, exc_info=True)
        return _failure(spec, error)
    return TrainResult(
        run_id=spec.run_id,
        attempt=spec.attempt,
        outcome=Outcome.DONE,
        adapter_uri=trained.directory.as_uri(),
        sha256=trained.sha256,
        metrics=trained.metrics,
        summary=trained.summary,
        versions=trained.versions,
        notes=list(trained.notes),
    )


def require_numbers(result: TrainResult, spec: TrainSpec) -> TrainResult:
    """The result, or the failure of one that tells numbers which are none: no JSON could hold it."""
    updates = [(f"update {number}", metrics) for number, metrics in enumerate(result.metrics, start=1)]
    for place, metrics in [*updates, ("the summary", result.summary)]:
        for name, value in metrics.items():
            if not math.isfinite(value):
                return _failure(spec, DivergedError(f"{name} of {place} must be finite, found {value}"))
    return result


def describe_failure(error: Exception, *, run_id: int, attempt: int) -> TrainResult:
    """The result of an attempt that this ended."""
    outcome = error.outcome if isinstance(error, TrainingError) else Outcome.FAILED
    name, words = type(error).__name__, str(error)
    return TrainResult(run_id=run_id, attempt=attempt, outcome=outcome, error_type=name, error_message=words)


def _failure(spec: TrainSpec, error: Exception) -> TrainResult:
    return describe_failure(error, run_id=spec.run_id, attempt=spec.attempt)


def _read_earlier(output: Path, spec: TrainSpec) -> TrainResult | None:
    """The result of this very spec, if it has been trained here before.

    Raises:
        ArtifactError: the directory belongs to another spec.
    """
    if not (output / RESULT_FILE).exists():
        return None
    try:
        trained = TrainSpec.from_json(json.loads((output / SPEC_FILE).read_bytes()))
        result = TrainResult.from_json(json.loads((output / RESULT_FILE).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise ArtifactError(f"{output} holds a result that cannot be read: {error}") from error
    if trained.content_hash != spec.content_hash:
        raise ArtifactError(
            f"{output} holds the result of spec {trained.content_hash[:12]}, wanted an empty directory for "
            f"{spec.content_hash[:12]}"
        )
    return result
