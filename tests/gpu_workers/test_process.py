"""How a process computes."""

import subprocess
import sys

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


FILLS_AGAIN_AND_AGAIN = """
import resource, sys, threading
import torch
from gpu_workers.process import prepare_process

def fill():
    kept = None
    for turn in range(60):  # some twenty, as its addresses happen to lie, until the heap has gaps that fit
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        kept = torch.zeros(10_000_000)  # while the last one is there, as a step's logits are
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

faults = []
prepare_process(has_one_heap=True)
thread = threading.Thread(target=fill)
thread.start()
thread.join()
print(max(faults[:2]), max(faults[40:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="another C library has rules of its own")
def test_with_one_heap_a_thread_fills_large_tensors_without_asking_for_pages_again() -> None:
    told = subprocess.run(
        [sys.executable, "-c", FILLS_AGAIN_AND_AGAIN], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    first, later = map(int, told.split())
    assert first > 5_000, "40 MB are some ten thousand pages"
    assert later < 500
