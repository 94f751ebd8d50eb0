"""`python -m gpu_workers run spec.json --out DIR`: train one spec by hand, without broker or web.

`python -m gpu_workers reproduce RUN_DIR`: train a run again from the spec in its directory, and compare the weights.
"""

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tentalis.core.contracts import ContractError, TrainSpec

BAD_USE, FAILED, DONE = 2, 1, 0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 trained, 1 the training failed, 2 the spec or the arguments are wrong."""
    parser = argparse.ArgumentParser(prog="python -m gpu_workers", description="The training box.")
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("run", help="train one spec; its result goes to standard output as JSON")
    command.set_defaults(act=_run)
    command.add_argument("spec", type=Path, help="a TrainSpec as JSON")
    command.add_argument("--out", type=Path, help="directory for adapter and result (default: the spec's output_uri)")
    command = commands.add_parser("reproduce", help="train a run again; whether the weights are the same, as JSON")
    command.set_defaults(act=_reproduce)
    command.add_argument("run", type=Path, help="the directory of an attempt that succeeded: spec.json, result.json")
    command.add_argument("--out", type=Path, help="directory for what comes out (default: one that goes afterwards)")
    arguments = parser.parse_args(argv)
    found: int = arguments.act(arguments)
    return found


def _run(arguments: argparse.Namespace) -> int:
    try:
        spec = _read_spec(arguments.spec, arguments.out)
    except ContractError as error:
        sys.stderr.write(f"{arguments.spec}: {error}\n")
        return BAD_USE
    return _train(spec)


def _reproduce(arguments: argparse.Namespace) -> int:
    """Exit code: 0 the same weights, 1 others or none, 2 there is nothing to train again."""
    from gpu_workers.artifacts import ArtifactError
    from gpu_workers.process import prepare_process
    from gpu_workers.reproducing import reproduce

    prepare_process()
    logging.disable(logging.CRITICAL)
    try:
        with TemporaryDirectory(prefix="reproduce-") as temporary:
            found = reproduce(arguments.run, output=arguments.out or Path(temporary), report=_show_update)
    except ArtifactError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_USE
    finally:
        logging.disable(logging.NOTSET)
    sys.stdout.write(json.dumps(found.to_json()) + "\n")
    sys.stderr.write(found.describe() + "\n")
    return DONE if found.is_identical else FAILED


def _read_spec(path: Path, out: Path | None) -> TrainSpec:
    try:
        spec = TrainSpec.from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise ContractError(f"cannot be read: {error.strerror}") from error
    except ContractError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise ContractError(f"is no training spec: {error}") from error
    return spec if out is None else dataclasses.replace(spec, output_uri=out.resolve().as_uri())


def _train(spec: TrainSpec) -> int:
    from gpu_workers.process import prepare_process
    from gpu_workers.runner import run

    prepare_process()
    logging.disable(logging.CRITICAL)  # a failure is told once, in the last line
    try:
        result = run(spec, _show_update)
    finally:
        logging.disable(logging.NOTSET)
    sys.stdout.write(json.dumps(result.to_json()) + "\n")
    if not result.ok:
        sys.stderr.write(f"{result.error_type}: {result.error_message}\n")
        return FAILED
    sys.stderr.write(f"adapter {result.adapter_uri}\n")
    return DONE


def _show_update(metrics: Mapping[str, float]) -> None:
    shown = ("reward", "loss_rl", "loss_opd", "entropy", "clip_fraction", "grad_norm", "tokens_per_s")
    numbers = "  ".join(f"{name} {metrics[name]:.4g}" for name in shown if name in metrics)
    sys.stderr.write(f"update {metrics['update']:.0f}/{metrics['updates']:.0f}  {numbers}\n")


if __name__ == "__main__":
    sys.exit(main())
