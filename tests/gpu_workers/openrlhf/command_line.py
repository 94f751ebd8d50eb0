"""OpenRLHF's own parser and placement checks, without Torch, Ray or vLLM.

Its parsers stand under `if __name__ == "__main__"`. The real module is run as that, with stand-ins for what it imports
alone: the parser, what is asserted after it and, for reinforcement learning, what `train(args)` asks of placements are
the shipped code. The first thing that would need a GPU ends it.
"""

import argparse
import contextlib
import io
import runpy
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

CLIS = {name: f"openrlhf.cli.train_{name}" for name in ("sft", "dpo", "rm")} | {"ppo": "openrlhf.cli.train_ppo_ray"}


class RefusedByOpenRLHFError(Exception):
    """Its parser or one of its checks said no."""


class _Parsed(BaseException):
    def __init__(self, found: Any) -> None:
        self.found = found


class CommandLines:
    """The command lines of one installation of OpenRLHF.

    Args:
        root: the directory its package lies in.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def parse(self, kind: str, argv: Sequence[str]) -> Any:
        """What `train` gets, nested. Raises RefusedByOpenRLHFError."""

        def end(args: Any) -> Any:
            raise _Parsed(args)

        return self._run(kind, argv, {"get_strategy": end})

    def plan(self, argv: Sequence[str]) -> SimpleNamespace:
        """What reinforcement learning would start: `args`, `groups` of actors, `engines`, `answers` (sampling)."""
        plan = SimpleNamespace(groups=[], engines=None, args=None, answers=None)

        class Group:
            def __init__(self, nodes: int, gpus: int, actor: type, pg: Any = None, **_: Any) -> None:
                plan.groups.append((actor.__name__, nodes * gpus, pg is not None))

        class Trainer:
            @staticmethod
            def remote(*_: Any, **answers: Any) -> Any:
                plan.answers = answers
                raise _Parsed(plan)

        def start_engines(count: int, tensor_parallel: int, *_: Any, **told: Any) -> list[str]:
            plan.engines = (count, tensor_parallel, told)
            return ["engine"] * count

        def begin(args: Any) -> Any:
            plan.args = args
            return SimpleNamespace(args=args, print=lambda *_: None)

        found: SimpleNamespace = self._run(
            "ppo",
            argv,
            {
                "get_strategy": begin,
                "create_vllm_engines": start_engines,
                "RayActorGroup": Group,
                "PPOTrainer": Trainer,
                "PPOTrainerAsync": Trainer,
                "placement_group": lambda *_, **__: SimpleNamespace(ready=lambda: None),
            },
        )
        return found

    def flags(self, kind: str) -> set[str]:
        """Every flag the parser knows."""
        known: set[str] = set()
        parse_args = argparse.ArgumentParser.parse_args

        def look(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
            known.update(flag for action in parser._actions for flag in action.option_strings)
            raise _Parsed(None)

        setattr(argparse.ArgumentParser, "parse_args", look)  # noqa: B010
        try:
            self.parse(kind, [])
        finally:
            setattr(argparse.ArgumentParser, "parse_args", parse_args)  # noqa: B010
        return known

    def _run(self, kind: str, argv: Sequence[str], given: Mapping[str, Any]) -> Any:
        said = io.StringIO()
        with self._stand_ins(given), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            before, sys.argv = sys.argv, [CLIS[kind], *argv]
            try:
                runpy.run_module(CLIS[kind], run_name="__main__", alter_sys=False)
            except _Parsed as parsed:
                return parsed.found
            except SystemExit:
                raise RefusedByOpenRLHFError(said.getvalue().strip().splitlines()[-1]) from None
            except (AssertionError, AttributeError, TypeError, ValueError) as error:
                raise RefusedByOpenRLHFError(f"{type(error).__name__}: {error}") from None
            finally:
                sys.argv = before
        raise RefusedByOpenRLHFError("it ended before it began to train")

    @contextlib.contextmanager
    def _stand_ins(self, given: Mapping[str, Any]) -> Iterator[None]:
        """Stand-ins for what the command lines import; `given` are the names in them that matter."""
        names = {
            "ray": ("init",),
            "ray.util": (),
            "ray.util.placement_group": ("placement_group",),
            "openrlhf.utils": ("get_strategy", "get_tokenizer"),
            "openrlhf.trainer": (),
            "openrlhf.trainer.ray": ("create_vllm_engines", "batch_vllm_engine_call"),
            "openrlhf.trainer.ray.launcher": ("RayActorGroup", "ReferenceModelActor", "RewardModelActor"),
            "openrlhf.trainer.ray.ppo_actor": ("PolicyModelActor",),
            "openrlhf.trainer.ray.ppo_critic": ("CriticModelActor",),
            "openrlhf.trainer.ppo_trainer": ("PPOTrainer",),
            "openrlhf.trainer.ppo_trainer_async": ("PPOTrainerAsync",),
            "openrlhf.datasets": ("SFTDataset", "RewardDataset", "PromptDataset"),
            "openrlhf.datasets.utils": ("blending_datasets",),
            "openrlhf.models": ("Actor", "get_llm_for_sequence_regression"),
            "openrlhf.trainer.sft_trainer": ("SFTTrainer",),
            "openrlhf.trainer.dpo_trainer": ("DPOTrainer",),
            "openrlhf.trainer.rm_trainer": ("RewardModelTrainer",),
        }
        modules: dict[str, ModuleType] = {}
        for name, held in names.items():
            modules[name] = types.ModuleType(name)
            modules[name].__path__ = []
            for each in held:
                setattr(modules[name], each, given.get(each, type(each, (), {})))
        modules["ray"].is_initialized = lambda: True  # type: ignore[attr-defined]
        modules["ray"].get = lambda value: value  # type: ignore[attr-defined]
        modules["openrlhf.utils"].__path__ = [str(self._root / "openrlhf" / "utils")]  # its config.py is the real one
        before = {
            name: sys.modules.get(name) for name in [*modules, "openrlhf", "openrlhf.cli", "openrlhf.utils.config"]
        }
        sys.modules.update(modules)
        sys.path.insert(0, str(self._root))
        try:
            yield
        finally:
            sys.path.remove(str(self._root))
            for name, module in before.items():
                if module is None:
                    sys.modules.pop(name, None)
                else:
                    sys.modules[name] = module
