"""`python -m tentalis.sandbox --directory DIR`: a sandbox host. Writes `ready` when it may be asked."""

import argparse
import os
import platform
import resource
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from tentalis.sandbox import kernel
from tentalis.sandbox.backends import BACKENDS, WARM, Choice
from tentalis.sandbox.errors import SandboxError, SandboxUnavailableError
from tentalis.sandbox.host import Host, serve_refusals


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tentalis.sandbox", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="its own; what is left in it is cleared away")
    parser.add_argument("--warm", type=int, default=WARM, help="processes that are kept ready to become sandboxes")
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0], help="what holds sandboxes in")
    parser.add_argument(
        "--engine", type=Path, help="the socket of Docker or Podman, where it is not in its usual place"
    )
    parser.add_argument(
        "--trusted-code", action="store_true", help="with subprocess, which holds nothing in: all code is trusted"
    )
    parser.add_argument(
        "--stays", action="store_true", help="where nothing can be confined: stay, and say so when asked"
    )
    parser.add_argument("--parent", type=int, help="the process it ends with")
    options = parser.parse_args(argv)
    directory = options.directory
    try:
        if options.parent is not None:
            kernel.end_with_parent(signal.SIGTERM)
            if os.getppid() != options.parent:
                return 1
        _raise_descriptors()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not kernel.is_known_machine():
            raise SandboxUnavailableError(f"sandboxes want Linux on x86_64 or aarch64, found {platform.platform()}")
        choice = Choice(options.backend, options.warm, options.engine, options.trusted_code)
        host = Host(directory.resolve(), choice)
        _run(host.serve(_announce))
    except SandboxUnavailableError as error:
        if options.stays:
            _run(serve_refusals(directory.resolve(), error, _announce))
            return 0
        sys.stderr.write(f"{error}\n")
        return 1
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _raise_descriptors() -> None:
    """Allow ourselves as many open files as we may: each sandbox takes some, and many systems begin with 1,024."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run(does: Coroutine[Any, Any, None]) -> None:
    import uvloop  # behind the fork that sandboxes come from, which has none of it

    uvloop.run(does)


def _announce() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
