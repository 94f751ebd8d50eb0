"""The process that sandboxes are forked from: of one thread, and made before the host has seen anybody's data."""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox import kernel
from tentalis.sandbox.agent import ENVIRONMENT, serve_agent
from tentalis.sandbox.confine import DONE, PROXY_ENVIRONMENT, Confinement, confine, namespaces
from tentalis.sandbox.limits import Limits, Wall

MAX_ORDER_BYTES: Final = 2**16
MAX_GROUPS: Final = 4
JOIN: Final = b"join"
"""To a process that waits: go into the groups whose open files come along. Who moves itself, and by its thread, keeps
nobody waiting; whoever moves another process makes every fork of the machine wait (kernel/cgroup/cgroup.c,
`cgroup_procs_write_start`)."""
_LEFT_TO_PARENT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_zygote(store: Path, outer_id: int, filters: Sequence[bytes]) -> tuple[int, socket.socket]:
    """Fork it. It works in `store`, and ends with us. Returns its pid and where it takes orders.

    An order is the names of walls, as JSON; the answer a process in namespaces of its own, which waits for what it is
    to become. Must be called while this process has one thread.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    if pid := os.fork():
        its.close()
        return pid, ours
    try:
        kernel.end_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        for number in _LEFT_TO_PARENT:
            signal.signal(number, signal.SIG_IGN)  # it goes when its parent does
        signal.signal(signal.SIGCHLD, _reap)
        ours.close()
        os.chdir(store)  # as whoever started us: a sandbox's user may not come this far by the path
        gc.collect()
        gc.freeze()
        while order := its.recv(MAX_ORDER_BYTES):
            _fork(frozenset(Wall(name) for name in json.loads(order)), its, outer_id, filters)
    except BaseException as error:  # noqa: BLE001  # nothing may return into what forked us
        sys.stderr.write(f"zygote: {error}\n")
    finally:
        os._exit(1)


def _reap(*_: Any) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork(walls: frozenset[Wall], orders: socket.socket, outer_id: int, filters: Sequence[bytes]) -> None:
    """Answer with a pid, and descriptors of the process and of where it waits; or with an error."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # its pid stays its own until we hold it
    try:
        pid = kernel.clone(namespaces(walls))
        if pid == 0:
            ours.close()
            _live(walls, its, outer_id, filters)
        held = os.pidfd_open(pid)
        socket.send_fds(orders, [json.dumps({"pid": pid}).encode()], [held, ours.fileno()])
        os.close(held)
    except OSError as error:
        orders.send(json.dumps({"error": str(error)}).encode())
    finally:
        ours.close()
        its.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _hear(answer: socket.socket) -> tuple[bytes, list[int]]:
    text, descriptors, _, _ = socket.recv_fds(answer, MAX_ORDER_BYTES, MAX_GROUPS, socket.MSG_CMSG_CLOEXEC)
    if not text:
        os._exit(0)  # nobody needs it any more
    return text, descriptors


def _live(walls: frozenset[Wall], answer: socket.socket, outer_id: int, filters: Sequence[bytes]) -> None:
    """In the sandbox, from its first moment to its last."""
    try:
        kernel.end_with_parent(signal.SIGKILL)
        for number in (signal.SIGCHLD, *_LEFT_TO_PARENT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        text, descriptors = _hear(answer)
        if text == JOIN:
            for group in descriptors:
                os.write(group, b"0")
                os.close(group)
            answer.send(DONE)
            text, descriptors = _hear(answer)
        order = json.loads(text)
        asked = Confinement(
            layers=order["layers"],
            has_system=order["has_system"],
            limits=Limits.from_json(order["limits"]),
            walls=walls,
            counts_memory=order["counts_memory"],
            outer_id=outer_id,
            filters=filters,
            filled_from=(*descriptors, None)[1],
        )
        way_out = confine(asked, answer, [answer.fileno(), *descriptors])
        socket.send_fds(answer, [DONE], [way_out.fileno()] if way_out else [])
        answer.close()
        given = dict(ENVIRONMENT)
        if way_out:
            way_out.close()
            given |= PROXY_ENVIRONMENT
        serve_agent(
            socket.socket(fileno=descriptors[0]),
            environment=given if Wall.ENVIRONMENT in walls else {**os.environ, **given},
            reaps_all=Wall.REAPING in walls,
            closes=Wall.DESCRIPTORS in walls,
        )
    except BaseException as error:  # noqa: BLE001  # told, and over
        with contextlib.suppress(OSError):
            answer.send(f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)
