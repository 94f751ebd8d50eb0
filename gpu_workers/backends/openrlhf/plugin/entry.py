"""`python -m tentalis_rlhf.entry openrlhf.cli.train_… <its flags>`: OpenRLHF's own command line, with our hooks."""

import ctypes
import os
import runpy
import signal
import sys

from . import hooks

REINFORCES = "openrlhf.cli.train_ppo_ray"


_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """On Linux, end when the launcher does, however that ended: a job that Ray knows to be over must not train on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    module, *flags = sys.argv[1:]
    if module == REINFORCES:
        import ray

        own = {"TOKENIZERS_PARALLELISM": "true", "NCCL_DEBUG": "WARN", "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1"}
        ray.init(  # OpenRLHF does so only where nobody has; these are the variables it sets
            runtime_env={
                "env_vars": {name: os.environ.get(name, value) for name, value in own.items()},
                "worker_process_setup_hook": f"{__package__}.hooks.install",
            }
        )
    else:
        die_with_parent()
    hooks.install()
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
