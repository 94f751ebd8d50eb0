"""How a process computes."""

import pytest
import torch

from gpu_workers.process import find_threads, prepare_process
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
