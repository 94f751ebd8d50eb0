"""The agent as the first process of a container: asked by its standard input, answering by its standard output.

It imports the standard library and what lies beside it, which came with the image.
"""

import os
import select
from pathlib import Path
from typing import Final

from tentalis.sandbox import kernel
from tentalis.sandbox.agent import ENVIRONMENT, OWN_DIRECTORIES, Agent
from tentalis.sandbox.confine import limit_resources
from tentalis.sandbox.copying import copy_tree
from tentalis.sandbox.frames import pack, take_frame
from tentalis.sandbox.limits import Limits

ROOT: Final = "/.tentalis"
"""In the image of a container: our sources, and what its own directories start with."""
START: Final = ("python3", "-I", "-c", f"import sys; sys.path.insert(0, {ROOT!r}); "
                "from tentalis.sandbox.contained import main; main()")  # fmt: skip


class _Pipes:
    """Two pipes, used like one socket."""

    def __init__(self, receiving: int, sending: int) -> None:
        self._receiving, self._sending = receiving, sending

    def fileno(self) -> int:
        return self._receiving

    def recv(self, most_bytes: int) -> bytes:
        return os.read(self._receiving, most_bytes)

    def sendall(self, data: bytes | bytearray) -> None:
        with memoryview(data) as view:
            sent = 0
            while sent < len(view):
                sent += os.write(self._sending, view[sent:])


def main() -> None:
    control = _Pipes(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    received = bytearray()
    while not (frame := take_frame(received)):
        select.select([control], [], [])
        part = control.recv(2**18)
        if not part:
            return
        received += part
    order, filters = frame
    try:
        begin(Limits.from_json(order["limits"]), order["filters"], filters, is_filled=order["is_filled"])
    except Exception as error:  # noqa: BLE001  # told, and over
        control.sendall(pack({"n": order["n"], "event": "refused", "words": f"{type(error).__name__}: {error}"}))
        return
    control.sendall(pack({"n": order["n"], "event": "done"}))
    Agent(control, ENVIRONMENT).run()


def begin(limits: Limits, lengths: list[int], filters: bytes, *, is_filled: bool) -> None:
    """Fill its own directories unless somebody will, and put up the walls that a process can put up around itself."""
    if not is_filled:
        for directory in OWN_DIRECTORIES:
            given = Path(ROOT) / Path(directory).name
            if given.is_dir():
                source, target = os.open(given, os.O_RDONLY), os.open(directory, os.O_RDONLY)
                copy_tree(  # its disk is its limit
                    source, target, owner=None, most_bytes=2**62, most_entries=2**31, is_ours=False
                )
                os.close(source)
                os.close(target)
    os.umask(0o022)
    limit_resources(limits, counts_memory=True, has_own_user=False)
    kernel.forbid_new_privileges()
    place = 0
    for length in lengths:
        kernel.install_filter(filters[place : place + length])
        place += length
    kernel.set_open_to_own_user(is_open=False)
