"""What a training takes of memory is computed before it starts, is about what it then takes, and is refused in words
where there is less."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gpu_workers.backends.base_models import load_base
from gpu_workers.backends.errors import NotEnoughMemoryError
from gpu_workers.backends.memory import find_memory, require_weights
from gpu_workers.backends.micro_batches import plan_items
from gpu_workers.runner import run
from tentalis.core.learning.recipes import ALL_LINEAR
from tests.gpu_workers.learning.training_factory import RECIPE, make_rollouts, make_spec, tiny_model

pytestmark = pytest.mark.torch

# the peak of a process of its own for each, from behind the reading of the model: clear_refs lets VmHWM begin anew.
# Forks of one that has imported everything and computed nothing, for that takes longer than all three
PEAK = """
import json, os, re, sys, torch
from tests.bench.gpu_training import Ours, Work, draw_items, make_module, wrap_module
from gpu_workers.backends.micro_batches import plan_items
from tentalis.core.learning.recipes import Recipe

def told(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

def measure(precision, room):
    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 4}
    base = wrap_module(make_module(sizes, words=2000, device=torch.device("cpu"), dtype=getattr(torch, precision)))
    if room == "little room":
        base.__dict__["room"] = 2**20
    items = draw_items(2000, Work(1, 1, 64, 750))
    recipe = Recipe(lora_rank=8)
    plan = plan_items(items, base, modules=recipe.target_modules, rank=8)
    before, mapped = told("VmRSS"), told("RssFile")
    ours = Ours(base, items, recipe)
    open("/proc/self/clear_refs", "w").write("5")
    ours.update()
    taken = told("VmHWM") - before
    own = taken - (told("RssFile") - mapped)
    print(json.dumps([plan.total - plan.weights, taken, own, plan.recomputes]), flush=True)

torch.set_num_threads(1)
for case in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        measure(*case)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
CASES = [("float32", "room"), ("bfloat16", "room"), ("float32", "little room")]
Peak = tuple[int, int, int, bool]


@pytest.fixture(scope="module")
def peaks() -> dict[tuple[str, str], Peak]:
    """Of each case: what was planned, what it took, that without pages of libraries, in bytes, and whether layers were
    computed again."""
    # what a tensor leaves is given back at once, and not kept by glibc for the next one
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", PEAK, json.dumps(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_an_update_takes_about_what_was_planned(peaks: dict[tuple[str, str], Peak], case: tuple[str, str]) -> None:
    planned, taken, own, again = peaks[case]
    assert again == (case[1] == "little room")
    told = f"planned {planned / 2**20:.1f} MiB, took {taken / 2**20:.1f}, {own / 2**20:.1f} without libraries"
    # how many pages of libraries come at once is the kernel's: more where these were read lately
    assert 0.75 * own < planned < 1.25 * taken, told


def test_one_long_answer_is_recomputed_and_takes_a_fraction() -> None:
    base = dataclasses.replace(load_base(str(tiny_model())))
    items = [([5, 6, 7], [8] * 40)]
    whole = plan_items(items, base, modules=ALL_LINEAR, rank=4)
    base.__dict__["room"] = 40 * base.activation_bytes
    again = plan_items(items, base, modules=ALL_LINEAR, rank=4)
    assert (whole.recomputes, again.recomputes) == (False, True)
    assert again.kept < whole.kept
    assert "its layers computed again" in again.describe()


def test_a_training_that_would_not_fit_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_base(str(tiny_model()))
    monkeypatch.setenv("TENTALIS_TRAINING_MEMORY_MIB", "1")
    recipe = dataclasses.replace(RECIPE, lora_rank=1024)
    result = run(make_spec(tmp_path, make_rollouts(), recipe=recipe), lambda _: None)
    assert (result.error_type, result.metrics) == ("NotEnoughMemoryError", [])
    assert re.search(
        r"wants about [\d.]+ MiB of memory: weights .* adapter with its optimiser .* There 1\.00 MiB may be taken "
        r"\(TENTALIS_TRAINING_MEMORY_MIB",
        result.error_message,
    ), result.error_message


def test_weights_that_would_not_fit_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"one": torch.zeros(1 << 19)}, tmp_path / "model.safetensors")
    monkeypatch.setenv("TENTALIS_TRAINING_MEMORY_MIB", "1")
    with pytest.raises(
        NotEnoughMemoryError, match=r"take 2\.00 MiB at 4 bytes a number, and there 1\.00 MiB may be taken"
    ):
        require_weights([tmp_path / "model.safetensors"], number_bytes=4, device=torch.device("cpu"))
    require_weights([tmp_path / "model.safetensors"], number_bytes=2, device=torch.device("cpu"))


def test_what_a_run_was_to_take_stands_in_its_summary(tmp_path: Path) -> None:
    result = run(make_spec(tmp_path, make_rollouts(), recipe=RECIPE), lambda _: None)
    assert 0 < result.summary["memory_planned_mib"] < find_memory(torch.device("cpu")) / 2**20
