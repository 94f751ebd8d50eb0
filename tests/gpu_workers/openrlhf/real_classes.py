"""OpenRLHF's own executors, experience, advantages, data sets and preferences.

What they import but Torch and aiohttp has stand-ins.
"""

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

from gpu_workers.backends.openrlhf.plugin import distillation
from gpu_workers.backends.openrlhf.plugin.told import Told
from tests.gpu_workers.openrlhf.peer import fetch_openrlhf


@contextlib.contextmanager
def import_openrlhf() -> Iterator[SimpleNamespace]:
    """Its modules `agent`, `generator`, `maker`, `experience`, `shown`, `pairs` and `dpo`, while this lasts."""
    root = fetch_openrlhf() / "openrlhf"
    before = dict(sys.modules)
    for name, path in {
        "openrlhf.utils": root / "utils",
        "openrlhf.models": root / "models",
        "openrlhf.datasets": root / "datasets",
        "openrlhf.trainer": root / "trainer",
        "openrlhf.trainer.ppo_utils": root / "trainer" / "ppo_utils",
        "openrlhf.trainer.ray": None,
    }.items():
        sys.modules[name] = _package(name, [str(path)] if path else [])
    vars(sys.modules["openrlhf.models"]).update(DPOLoss=object)
    sys.modules["openrlhf.trainer.ray.vllm_engine"] = _package("vllm_engine", [], batch_vllm_engine_call=None)
    sys.modules["openrlhf.trainer.ray.launcher"] = _package("launcher", [], RayActorGroup=object)
    tables = dict.fromkeys(("Dataset", "interleave_datasets", "load_dataset", "load_from_disk"))
    stubs: dict[str, dict[str, Any]] = {
        "ray": {},
        "vllm": {"SamplingParams": object},
        "deepspeed": {},
        "datasets": tables,
    }
    for name, held in stubs.items():
        sys.modules[name] = _package(name, [], **held)
    sys.path.insert(0, str(root.parent))
    try:
        yield SimpleNamespace(
            agent=importlib.import_module("openrlhf.utils.agent"),
            experience=importlib.import_module("openrlhf.trainer.ppo_utils.experience"),
            maker=importlib.import_module("openrlhf.trainer.ppo_utils.experience_maker"),
            shown=importlib.import_module("openrlhf.datasets.sft_dataset"),
            pairs=importlib.import_module("openrlhf.datasets.reward_dataset"),
            dpo=importlib.import_module("openrlhf.trainer.dpo_trainer"),
            generator=importlib.import_module("openrlhf.trainer.ppo_utils.samples_generator"),
        )
    finally:
        sys.path.remove(str(root.parent))
        ours = [name for name in sys.modules if name.split(".")[0] in ("openrlhf", *stubs)]
        for name in ours:
            if name in before:
                sys.modules[name] = before[name]
            else:
                del sys.modules[name]


def _package(name: str, path: list[str], **held: Any) -> ModuleType:
    module = types.ModuleType(name)
    module.__path__ = path
    vars(module).update(held)
    return module


def make_maker(openrlhf: Any, told: Told) -> Any:
    """Their experience maker, with ours in its place, asked for GRPO's advantages."""
    module = SimpleNamespace(RemoteExperienceMaker=openrlhf.maker.RemoteExperienceMaker)
    distillation.weigh_advantages(module, told)  # type: ignore[arg-type]
    maker = module.RemoteExperienceMaker.__new__(module.RemoteExperienceMaker)
    maker.args = SimpleNamespace(
        algo=SimpleNamespace(
            advantage=SimpleNamespace(estimator="group_norm", gamma=1.0, lambd=1.0, no_std_norm=False)
        ),
        rollout=SimpleNamespace(n_samples_per_prompt=2),
        reward=SimpleNamespace(clip_range=(-10, 10), overlong_buffer_len=None, stop_properly_penalty_coef=None),
    )
    maker.strategy = SimpleNamespace(args=maker.args)
    maker.advantage_estimator, maker.kl_ctl = "group_norm", SimpleNamespace(value=0.0)
    return maker
