"""`python -m tentalis_rlhf.entry openrlhf.cli.train_… <its flags>`: OpenRLHF's own command line, with our hooks."""

import os
import runpy
import sys

from . import hooks

REINFORCES = "openrlhf.cli.train_ppo_ray"


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
    hooks.install()
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
