"""The processes of a training that several share: started together, listened to, and ended together.

Whoever was asked to train starts them and computes nothing itself: it passes on what the first one reports, says
whether the run is cancelled, and ends all of them with the first failure. So a process that dies leaves no other
waiting, and the queue process lives on. None of them outlives who started it.
"""

import logging
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gpu_workers.artifacts import ArtifactError
from gpu_workers.backends import RankWork, TrainedAdapter
from gpu_workers.backends.errors import LostRanksError, SharedTrainingError, TrainingError
from gpu_workers.backends.ranks import join_ranks
from gpu_workers.process import find_threads, find_training_processes, prepare_process
from tentalis.core.contracts import ContractError, TrainSpec

GRACE_S = 10.0
"""Who waited in vain is believed after so long in which nobody says why."""
SETTING = "TENTALIS_TRAINING_PROCESSES"


class _Rank(NamedTuple):
    """A process, and the end of the pipe that it is heard through."""

    process: SpawnProcess
    connection: Connection

    @property
    def name(self) -> str:
        return self.process.name


def choose_processes(wanted: int, *, gpus: int, cores: int) -> int:
    """How many processes share a training on a machine with so many GPUs and cores.

    Args:
        wanted: 0: one for each GPU, and without one a single process.
    Raises:
        SharedTrainingError: there are not so many GPUs, or where there are none, cores.
    """
    there, of = (gpus, "GPUs") if gpus else (cores, "cores, and no GPU")
    if wanted > there:
        raise SharedTrainingError(f"{SETTING} must be at most {there}: this machine has {there} {of}, found {wanted}")
    return wanted or max(1, gpus)


def find_processes() -> int:
    """How many processes share a training here. Raises SharedTrainingError: see `choose_processes`."""
    return choose_processes(find_training_processes(), gpus=torch.cuda.device_count(), cores=os.cpu_count() or 1)


def train_together(
    work: RankWork,
    spec: TrainSpec,
    *,
    count: int,
    output: Path,
    report: Callable[[Mapping[str, float]], None],
    is_cancelled: Callable[[], bool],
) -> TrainedAdapter:
    """Let so many processes do this work on the spec together.

    Args:
        work: a function of a module. report, is_cancelled: called here, in the order the first process asks for it.
    Raises:
        SharedTrainingError: a process ended, or failed of something that is no error of a training; the message says
            which and why. TrainingError, ContractError, ArtifactError: what the first to fail raised.
    """
    torch.cuda.empty_cache()  # what this process computed before, a step scorer's head, leaves the first GPU its room
    context = multiprocessing.get_context("spawn")
    ranks: list[_Rank] = []
    with tempfile.TemporaryDirectory(prefix="ranks-") as directory:
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                level = logging.getLogger().getEffectiveLevel() if number == 0 else logging.WARNING
                process = context.Process(
                    target=_be_rank,
                    args=(work, spec.to_json(), output, number, count, Path(directory, "meeting"), theirs, level),
                    name=f"process {number + 1} of {count}",
                    daemon=True,
                )
                process.start()
                theirs.close()
                ranks.append(_Rank(process, ours))
            return _listen(ranks, report, is_cancelled)
        finally:
            for rank in ranks:
                rank.process.kill()
            for rank in ranks:
                rank.process.join()
                rank.connection.close()


def _listen(
    ranks: Sequence[_Rank], report: Callable[[Mapping[str, float]], None], is_cancelled: Callable[[], bool]
) -> TrainedAdapter:
    """Do as the processes say until the first of them is done."""
    by_connection = {rank.connection: rank for rank in ranks}
    lost: LostRanksError | None = None
    while True:
        ready = wait(list(by_connection), timeout=None if lost is None else GRACE_S)
        if not ready and lost is not None:
            raise lost
        for connection in ready:
            assert isinstance(connection, Connection), "pipes are waited for, and nothing else"
            try:
                kind, word = connection.recv()
            except (EOFError, OSError):
                raise _explain_end(by_connection[connection]) from None
            if kind == "update":
                report(word)
            elif kind == "asks":
                with suppress(BrokenPipeError):  # it died meanwhile: the next word is its end
                    connection.send(is_cancelled())
            elif kind == "log":
                _pass_on(word)
            elif kind == "failed" and isinstance(word, LostRanksError):
                lost = word
            elif kind == "failed":
                raise word
            elif isinstance(word, TrainedAdapter):
                return word


def _explain_end(rank: _Rank) -> SharedTrainingError:
    rank.process.join(GRACE_S)
    code = rank.process.exitcode
    how = f"was ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"
    return SharedTrainingError(f"{rank.name} of this training {how} before it was done; the log may say why")


def _pass_on(record: logging.LogRecord) -> None:
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


class _Parent:
    """Who started this process, as it is spoken to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_speaking = threading.Lock()

    def tell(self, kind: str, word: Any) -> None:
        with self._is_speaking:
            self._connection.send((kind, word))

    def put_nowait(self, record: logging.LogRecord) -> None:
        """As a queue of log records."""
        self.tell("log", record)

    def report(self, metrics: Mapping[str, float]) -> None:
        self.tell("update", dict(metrics))

    def is_cancelled(self) -> bool:
        self.tell("asks", None)
        return bool(self._connection.recv())

    def await_end(self) -> None:
        """Who was the last to speak is ended by the parent: NCCL's group is taken down by all at once or not at all."""
        with suppress(EOFError):
            self._connection.recv()


def _be_rank(
    work: RankWork,
    spec_json: Mapping[str, Any],
    output: Path,
    number: int,
    count: int,
    meeting: Path,
    connection: Connection,
    level: int,
) -> None:
    """One process of a training, from its start to when it is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the whole group; who started us decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parent = _Parent(connection)
    logging.getLogger().setLevel(level)
    logging.getLogger().addHandler(QueueHandler(parent))  # type: ignore[arg-type]  # it puts, and never gets
    try:
        prepare_process()
        if not torch.cuda.is_available():  # the threads of a training are shared out too
            torch.set_num_threads(max(1, find_threads() // count))
        join_ranks(number, count, meeting)
        spec = TrainSpec.from_json(spec_json)
        found = work(spec, output=output, report=parent.report, is_cancelled=parent.is_cancelled)
    except (TrainingError, ContractError, ArtifactError) as error:
        parent.tell("failed", error)
    except Exception as error:
        name = f"process {number + 1} of {count}"
        logging.getLogger(__name__).warning("%s of a training failed", name, exc_info=True)
        parent.tell("failed", SharedTrainingError(f"{name} of this training: {type(error).__name__}: {error}"))
    else:
        parent.tell("done", found)
    parent.await_end()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "started by train_together"
    parent.join()
    os._exit(1)
