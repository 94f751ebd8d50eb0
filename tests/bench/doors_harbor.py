"""Harbor's side: an environment without a container engine for its own runner, and an agent that does what it is told.

Imported by Harbor (`--environment-import-path doors_harbor:PlainEnvironment`, `--agent-import-path
doors_harbor:ScriptedAgent`), in a Python that it wants (3.12 or newer). The environment is a directory that is the root
of what runs in it, with this machine's system beneath. It holds nothing in: what runs there is our own.
Source: harborframework.com/docs/environments.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent  # type: ignore[import-not-found]
from harbor.environments.base import BaseEnvironment, ExecResult  # type: ignore[import-not-found]

SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc", "dev", "proc")
ENTER = """for name in {system}; do
  if [ -e "/$name" ]; then mkdir -p "$1/$name" && mount --rbind "/$name" "$1/$name" || exit 125; fi
done
exec chroot "$1" /bin/bash -c "cd '$2' && $3"
"""


class PlainEnvironment(BaseEnvironment):  # type: ignore[misc]
    """A root of its own for each, of what the Dockerfile copies (`COPY . .` into its WORKDIR) and what is uploaded."""

    @staticmethod
    def type() -> str:
        return "plain"

    def _validate_definition(self) -> None:
        lines = (self.environment_dir / "Dockerfile").read_text(encoding="utf-8").splitlines()
        told = [line.partition(" ")[::2] for line in lines if line.strip()]
        self._workdir = next((rest for word, rest in told if word == "WORKDIR"), "/")
        self._variables = dict(rest.split("=", 1) for word, rest in told if word == "ENV")

    @property
    def _root(self) -> Path:
        return Path(self.trial_paths.trial_dir).resolve() / "root"

    def _at(self, path: str) -> Path:
        return self._root / str(path).lstrip("/")

    async def start(self, force_build: bool) -> None:
        for name in (self._workdir, "/tmp", "/tests", "/solution", "/logs/agent", "/logs/verifier", "/logs/artifacts"):
            self._at(name).mkdir(parents=True, exist_ok=True)
        await self.upload_dir(self.environment_dir, self._workdir)
        (self._at(self._workdir) / "Dockerfile").unlink()

    async def stop(self, delete: bool) -> None:
        if delete:
            shutil.rmtree(self._root)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._at(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source_path, self._at(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._at(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy2(self._at(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._at(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        enter = ENTER.format(system=" ".join(SYSTEM))
        process = await asyncio.create_subprocess_exec(
            "unshare", "--mount", "--map-root-user", "bash", "-c", enter, "enter",
            str(self._root), cwd or self._workdir, command,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp"} | self._variables | (env or {}),
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)


class ScriptedAgent(BaseAgent):  # type: ignore[misc]
    """Writes the files that it was given."""

    def __init__(self, *args: Any, files: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._files = files

    @staticmethod
    def name() -> str:
        return "scripted"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: BaseEnvironment) -> None:
        pass

    async def run(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        place = Path(self.logs_dir)
        for number, (path, text) in enumerate(self._files.items()):
            written = place / f"file-{number}"
            written.write_text(text, encoding="utf-8")
            await environment.upload_file(written, path)
