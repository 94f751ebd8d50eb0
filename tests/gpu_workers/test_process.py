"""How a process computes."""

import psutil
import pytest
import torch

from gpu_workers import process
from gpu_workers.process import find_threads, give_back_memory, prepare_process
from tentalis.env import EnvironmentVariableError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("said", "threads"), [("", 1), ("6", 6)])
def test_it_computes_on_as_many_threads_as_are_set(monkeypatch: pytest.MonkeyPatch, said: str, threads: int) -> None:
    told = list[int]()
    monkeypatch.setenv("TENTALIS_TORCH_THREADS", said)
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    prepare_process()
    assert told == [threads]


@pytest.mark.parametrize("said", ["0", "many"])
def test_no_number_of_threads_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("TENTALIS_TORCH_THREADS", said)
    with pytest.raises(EnvironmentVariableError, match="TENTALIS_TORCH_THREADS"):
        find_threads()


def test_between_two_jobs_only_so_much_of_what_was_freed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    size, count = 100_000, 1_000
    own = psutil.Process()
    blocks = [bytearray(b"x") * size for _ in range(count)]
    lasting = bytearray(b"x") * size  # the heap does not end with what is free
    blocks.clear()
    held = own.memory_info().rss
    monkeypatch.setattr(process, "KEPT_BYTES", 2**40)
    give_back_memory()
    assert own.memory_info().rss > held - count * size / 2
    monkeypatch.setattr(process, "KEPT_BYTES", count * size // 2)
    give_back_memory()
    assert own.memory_info().rss < held - count * size / 2
    assert len(lasting) == size
