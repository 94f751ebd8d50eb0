"""config.toml of a home: the secrets this installation made for itself, and the settings a person chose."""

import secrets
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import tomli_w

from tentalis.env import PREFIX, VARIABLES, read_environment
from tentalis.platform.errors import HomeError
from tentalis.platform.home import Home, write_private_file

HEADER = """\
# Made by `tentalis`. It holds passwords: only you may read it (mode 0600).
# [settings] takes any TENTALIS_ variable in lower case without the prefix; the environment wins over it.

"""


@dataclass(frozen=True)
class Secrets:
    """Passwords made on the first start; each 43 characters of URL-safe text (32 random bytes), the key 86."""

    secret_key: str
    postgres_password: str
    redis_password: str
    admin_password: str

    @classmethod
    def make(cls) -> "Secrets":
        return cls(
            secret_key=secrets.token_urlsafe(64),
            postgres_password=secrets.token_urlsafe(32),
            redis_password=secrets.token_urlsafe(32),
            admin_password=secrets.token_urlsafe(12),
        )


@dataclass(frozen=True)
class Config:
    """What config.toml says."""

    secrets: Secrets
    settings: dict[str, str] = field(default_factory=dict)

    def complete(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment with this file's settings under it, by full variable name."""
        chosen = {PREFIX + name.upper(): value for name, value in self.settings.items()}
        return chosen | {name: value for name, value in environ.items() if value or name not in chosen}

    def write(self, home: Home) -> None:
        document = {"secrets": asdict(self.secrets), "settings": self.settings}
        write_private_file(home.config_file, HEADER + tomli_w.dumps(document))


def load_config(home: Home) -> Config:
    """Read config.toml.

    Raises:
        HomeError: the file is missing, readable by others, no TOML, or says something unknown.
    """
    path = home.config_file
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HomeError(f"{path} is missing; `tentalis init` makes it") from None
    except OSError as error:
        raise HomeError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HomeError(f"{path} must be TOML: {error}") from None
    if mode & 0o077:
        raise HomeError(f"{path} holds passwords and must have mode 0600, found {mode:04o}; run: chmod 600 {path}")
    if unknown := sorted(document.keys() - {"secrets", "settings"}):
        raise HomeError(f"{path} has sections [secrets] and [settings], found also {', '.join(unknown)}")
    return Config(
        _read_secrets(home, document.get("secrets")),
        _read_settings(home, document.get("settings", {})),
    )


def load_or_make_config(home: Home) -> tuple[Config, bool]:
    """Read config.toml, or make it with new secrets. The flag is True when it was made now."""
    if home.config_file.exists():
        return load_config(home), False
    if home.postgres_data.exists():
        raise HomeError(
            f"{home.config_file} is missing but {home.postgres_data} has data that needs its password: "
            "restore the file, or move the data away"
        )
    config = Config(Secrets.make())
    config.write(home)
    return config, True


def _read_secrets(home: Home, table: Any) -> Secrets:
    wanted = [entry.name for entry in fields(Secrets)]
    if not isinstance(table, dict):
        raise HomeError(f"{home.config_file} needs a section [secrets] with {', '.join(wanted)}")
    for name in wanted:
        if not isinstance(table.get(name), str) or len(table[name]) < 8:
            raise HomeError(f"{home.config_file}: secrets.{name} must be text of 8 characters or more")
    if unknown := sorted(table.keys() - set(wanted)):
        raise HomeError(f"{home.config_file}: [secrets] has {', '.join(wanted)}, found also {', '.join(unknown)}")
    return Secrets(**table)


def _read_settings(home: Home, table: Any) -> dict[str, str]:
    if not isinstance(table, dict):
        raise HomeError(f"{home.config_file}: settings must be a section [settings]")
    settings = {}
    for name, value in table.items():
        if PREFIX + name.upper() not in VARIABLES or name == "home":
            raise HomeError(f"{home.config_file}: settings.{name} is unknown; `tentalis doctor` lists the settings")
        if not isinstance(value, str | int | float):
            raise HomeError(f"{home.config_file}: settings.{name} must be text, a number or true/false")
        settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def read_settings(home: Home, config: Config, environ: Mapping[str, str]) -> dict[str, Any]:
    """Every setting's value, the environment over config.toml over the defaults.

    Raises:
        EnvironmentVariableError: an unknown or unreadable one.
    """
    return read_environment(config.complete(environ) | {"TENTALIS_HOME": str(home.root)})
