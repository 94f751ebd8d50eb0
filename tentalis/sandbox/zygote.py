"""The process that sandboxes are forked from: of one thread, with nobody's data, and with little in its memory, for
each of them gets a copy of that."""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from tentalis.sandbox import kernel
from tentalis.sandbox.agent import ENVIRONMENT, Agent
from tentalis.sandbox.confine import DONE, PROXY_ENVIRONMENT, Confinement, confine, namespaces
from tentalis.sandbox.limits import Limits, Wall

START: Final = "import sys; sys.path.append(sys.argv.pop(1)); from tentalis.sandbox.zygote import main; main()"
"""What Python runs (-I -S -c), with the directory that holds `tentalis` as its first argument."""
MAX_ORDER_BYTES: Final = 2**16
FILTERS: Final = 3
MAX_GROUPS: Final = 4
JOIN: Final = b"join"
"""To a process that waits: go into the groups whose open files come along. Who moves itself, and by its thread, keeps
nobody waiting; whoever moves another process makes every fork of the machine wait (kernel/cgroup/cgroup.c,
`cgroup_procs_write_start`)."""


def main() -> NoReturn:
    """`START ORDERS OUTER_ID PARENT`: it takes orders from an open socket, and ends with its parent.

    What comes first are the filters, one a message. An order is the names of walls, as JSON; the answer a process in
    namespaces of its own, which waits for what it is to become.
    """
    orders, outer_id, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    orders.set_inheritable(False)
    try:
        kernel.end_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # by which no first process of a sandbox ends
        signal.signal(signal.SIGCHLD, _reap)
        filters = [orders.recv(MAX_ORDER_BYTES) for _ in range(FILTERS)]
        gc.collect()
        gc.freeze()
        while order := orders.recv(MAX_ORDER_BYTES):
            _fork(frozenset(Wall(name) for name in json.loads(order)), orders, outer_id, filters)
    except BaseException as error:  # noqa: BLE001  # told, and over
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
    try:
        pid, held = kernel.clone(namespaces(walls))
        if pid == 0:
            ours.close()
            _live(walls, its, outer_id, filters)
        socket.send_fds(orders, [json.dumps({"pid": pid}).encode()], [held, ours.fileno()])
        os.close(held)
    except OSError as error:
        orders.send(json.dumps({"error": str(error)}).encode())
    finally:
        ours.close()
        its.close()


def _hear(answer: socket.socket) -> tuple[bytes, list[int]]:
    text, descriptors, _, _ = socket.recv_fds(answer, MAX_ORDER_BYTES, MAX_GROUPS)
    if not text:
        os._exit(0)  # nobody needs it any more
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # Python 3.11 forgets MSG_CMSG_CLOEXEC
    return text, descriptors


def _live(walls: frozenset[Wall], answer: socket.socket, outer_id: int, filters: Sequence[bytes]) -> None:
    """In the sandbox, from its first moment to its last."""
    try:
        kernel.end_with_parent(signal.SIGKILL)
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
        environment = given if Wall.ENVIRONMENT in walls else {**os.environ, **given}
        Agent(socket.socket(fileno=descriptors[0]), environment, reaps_all=Wall.REAPING in walls).run()
    except BaseException as error:  # noqa: BLE001  # told, and over
        with contextlib.suppress(OSError):
            answer.send(f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)
