"""The host's side of the proxy: it is started for the first sandbox that has an allow list."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox.errors import SandboxRefusedError, SandboxUnavailableError
from tentalis.sandbox.limits import Limits

LOGS: Final = "network"
"""In the host's directory: what went out, and what was refused."""
ANSWER_WITHIN_S: Final = 20.0
STOP_WITHIN_S: Final = 5.0
_MAX_ANSWER_BYTES: Final = 2**12


class WaysOut:
    """The proxy process, while there is one. Ask it from one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._asking = asyncio.Lock()

    async def open(self, sandbox: str, limits: Limits, listener: int) -> socket.socket:
        """Let a sandbox out as far as its list goes, until the socket that comes back is closed.

        Args:
            listener: a socket that listens on its own loopback. It is closed here.
        """
        ours, its = socket.socketpair()
        try:
            async with self._asking:
                await asyncio.to_thread(self._hand_over, sandbox, limits, [listener, its.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            its.close()
            os.close(listener)
        return ours

    def _hand_over(self, sandbox: str, limits: Limits, descriptors: list[int]) -> None:
        order = {"sandbox": sandbox, "allow": limits.allow, "connections": limits.connections}
        text = json.dumps({**order, "network_bytes": limits.network_bytes}).encode()
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._control
        try:
            socket.send_fds(self._control, [text], descriptors)
            told = self._hear(self._control)
        except OSError as error:
            self._end()
            raise SandboxUnavailableError(f"the proxy is gone: {error}") from None
        if "error" in told:
            raise SandboxRefusedError(str(told["error"]))

    def _hear(self, control: socket.socket) -> dict[str, Any]:
        text = control.recv(_MAX_ANSWER_BYTES)
        if not text:
            raise OSError("it ended")
        told: dict[str, Any] = json.loads(text)
        return told

    def _start(self) -> None:
        from tentalis.sandbox.proxy import PROXY_ID

        self._end()
        logs = self._directory / LOGS
        logs.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(logs, PROXY_ID, PROXY_ID)
        place = os.open(logs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_WITHIN_S)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "tentalis.sandbox.proxy", str(its.fileno()), str(place)],
                pass_fds=[its.fileno(), place], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            its.close()
            os.close(place)
        try:
            self._hear(self._control)
        except OSError as error:
            self._end()
            raise SandboxUnavailableError(f"the proxy does not start: {error}") from None

    def _end(self) -> None:
        if self._control:
            self._control.close()
            self._control = None
        if self._process:
            try:
                self._process.wait(STOP_WITHIN_S)  # it goes when its control does
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._end)
