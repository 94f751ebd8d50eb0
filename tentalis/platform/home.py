"""TENTALIS_HOME: the directory with the configuration, the embedded data, the artifacts and the logs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tentalis.platform.errors import HomeError

DEFAULT_HOME = "~/.tentalis"
PRIVATE_DIRECTORY_MODE = 0o700
PRIVATE_FILE_MODE = 0o600


@dataclass(frozen=True)
class Home:
    """The places inside one home. Making a `Home` touches no disk; `prepare` does."""

    root: Path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> "Home":
        """The home the environment names, else the default one; always absolute, for children run elsewhere."""
        return cls(Path(environ.get("TENTALIS_HOME") or DEFAULT_HOME).expanduser().absolute())

    @property
    def config_file(self) -> Path:
        return self.root / "config.toml"

    @property
    def postgres_data(self) -> Path:
        return self.root / "postgres"

    @property
    def redis_data(self) -> Path:
        return self.root / "redis"

    @property
    def redis_config_file(self) -> Path:
        return self.run / "redis.conf"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def sandboxes(self) -> Path:
        return self.root / "sandboxes"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def lock_file(self) -> Path:
        return self.run / "lock"

    @property
    def state_file(self) -> Path:
        return self.run / "state.json"

    @property
    def restoring_file(self) -> Path:
        """There while a backup is being brought back."""
        return self.root / "restoring"

    def log_file(self, service: str) -> Path:
        return self.logs / f"{service}.log"

    def prepare(self) -> None:
        """Make the directories, readable by their owner alone.

        Raises:
            HomeError: one cannot be made or written.
        """
        for directory in (self.root, self.run, self.logs, self.artifacts):
            try:
                directory.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
                probe = directory / f".writable-{os.getpid()}"
                probe.touch()
                probe.unlink()
            except OSError as error:
                raise HomeError(f"{directory} must be a directory we can write to: {error.strerror}") from None


def write_private_file(path: Path, text: str, *, is_durable: bool = True) -> None:
    """Replace a file in one step with one that only its owner may read; a reader sees the old text or the new.

    Args:
        is_durable: the new text survives a power cut from the return on.
    Raises:
        HomeError: the file cannot be written.
    """
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), PRIVATE_FILE_MODE)
            file.write(text)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        staging.replace(path)
    except OSError as error:
        staging.unlink(missing_ok=True)
        raise HomeError(f"{path} cannot be written: {error.strerror}") from None
