"""What of an installation is kept, and where it lies: database, artifacts, the gateway's spool, the keys."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrage import x25519

from tentalis.platform.config import Config, load_config, load_or_make_config, read_settings
from tentalis.platform.errors import BackupError, HomeError
from tentalis.platform.home import Home
from tentalis.platform.keeping.sealing import make_key, read_key
from tentalis.platform.state import read_last_state
from tentalis.platform.up import running_stack

DATA_KEY = "backup.key"
SECRETS_KEY = "recovery.key"
SPOOL = "spool"


@dataclass(frozen=True)
class Keys:
    """What backups are sealed for.

    Attributes:
        data: opens the database and the files; secrets: opens what unseals the secrets inside the database.
        made: files that were made just now.
    """

    data: x25519.Identity
    secrets: x25519.Identity
    made: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Place:
    """An installation on this machine.

    Attributes:
        settings: in effect, by name without prefix.
    """

    home: Home
    config: Config
    settings: Mapping[str, Any]
    environ: Mapping[str, str]

    @classmethod
    def find(cls, home: Home, environ: Mapping[str, str]) -> "Place":
        """The installation of a home; with servers of its own and nothing made yet, its configuration is made.

        Raises:
            HomeError, EnvironmentVariableError: it cannot be read.
        """
        if home.config_file.exists():
            config = load_config(home)
        else:
            if not environ.get("TENTALIS_DATABASE_URL"):
                raise HomeError(f"{home.root} holds no installation: {home.config_file} is missing")
            home.prepare()
            config, _ = load_or_make_config(home)
        return cls(home, config, read_settings(home, config, environ), environ)

    @property
    def artifacts(self) -> Path:
        return Path(self.settings["ARTIFACTS"] or self.home.artifacts).absolute()

    @property
    def spool(self) -> Path:
        return self.home.root / SPOOL

    @property
    def repository(self) -> Path:
        """Where its backups go unless somebody says otherwise."""
        return Path(self.settings["BACKUP_DIR"] or self.home.root / "backups").absolute()

    @property
    def secret_key(self) -> str:
        return str(self.settings["SECRET_KEY"] or self.config.secrets.secret_key)

    def read_key_ring(self) -> str:
        """The text of the ring's file; "" without one.

        Raises:
            BackupError: it cannot be read.
        """
        path: Path | None = self.settings["KEY_RING"]
        if path is None:
            return ""
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise BackupError(f"TENTALIS_KEY_RING: {path} cannot be read: {error.strerror}") from None

    def find_keys(self, *, data: Path | None = None, secrets: Path | None = None) -> Keys:
        """The keys from the files named, else those of the home, which are made where there are none.

        Raises:
            BackupError: one cannot be read or written.
        """
        made: list[Path] = []
        found: list[x25519.Identity] = []
        for given, name in ((data, DATA_KEY), (secrets, SECRETS_KEY)):
            path = given or self.home.root / name
            if given is None and not path.exists():
                found.append(make_key(path))
                made.append(path)
            else:
                found.append(read_key(path))
        return Keys(found[0], found[1], tuple(made))

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The address of its database, as the strongest role that is known: it reads and writes whatever there is.

        The embedded one is started for so long where it does not run.
        """
        if self.settings["DATABASE_URL"]:
            yield self.strongest_address()
            return
        state = read_last_state(self.home)
        if state is not None and state.is_alive():
            yield state.addresses.get("admin_database_url") or state.addresses["database_url"]
            return
        with running_stack(self.home, self.environ, only=["postgres"]) as stack:
            yield stack.state().addresses["admin_database_url"]

    def strongest_address(self) -> str:
        """Of somebody else's server: the administrator's, else the owner's, else the application's."""
        names = ("ADMIN_DATABASE_URL", "MIGRATION_DATABASE_URL", "DATABASE_URL")
        return str(next(self.settings[name] for name in names if self.settings[name]))
