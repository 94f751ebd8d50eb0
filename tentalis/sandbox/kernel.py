"""System calls that Python has no name for: namespaces, mounts, capabilities, filters. Linux only."""

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
from typing import Final

_CLONE_PIDFD: Final = 0x00001000
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MNT_DETACH: Final = 2

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_LAST_CAPABILITY: Final = 63
_CAPABILITY_VERSION_3: Final = 0x20080522
_SECCOMP_SET_MODE_FILTER: Final = 1
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446  # the same on every machine
_LANDLOCK_VERSION_FLAG, _LANDLOCK_PATH_BENEATH = 1, 1
_LANDLOCK_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights to files each version of Landlock knows; the last holds for later ones."""
_PROC_MAGIC: Final = 0x9FA0
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_NUMBERS: Final = {
    "x86_64": {"clone": 56, "pivot_root": 155, "seccomp": 317},
    "aarch64": {"clone": 220, "pivot_root": 41, "seccomp": 277},
}

_libc = ctypes.CDLL(None, use_errno=True)
_python = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, as a fork must


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def is_known_machine() -> bool:
    """Whether we know this machine's numbers of system calls."""
    return platform.system() == "Linux" and platform.machine() in _NUMBERS


def _call(name: str) -> ctypes.c_long:
    return ctypes.c_long(_NUMBERS[platform.machine()][name])


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces. Returns the child's pid and a descriptor of it, that closes itself; (0, -1) in the
    child, which is pid 1 where CLONE_NEWPID is among the flags.

    Only in a process of one thread.
    """
    descriptor = ctypes.c_int(-1)
    nothing = ctypes.c_ulong(0)
    all_flags = ctypes.c_ulong(flags | _CLONE_PIDFD | signal.SIGCHLD)
    _python.PyOS_BeforeFork()
    pid = _python.syscall(_call("clone"), all_flags, nothing, ctypes.byref(descriptor), nothing, nothing)
    if pid == 0:
        _python.PyOS_AfterFork_Child()
        return 0, -1
    number = ctypes.get_errno()
    _python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return int(pid), descriptor.value


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def is_of_proc(descriptor: int) -> bool:
    """Whether an open file is the kernel's own, of /proc."""
    found = ctypes.create_string_buffer(256)
    _checked(_libc.fstatfs(descriptor, found), "fstatfs")
    return bool(struct.unpack_from("l", found)[0] == _PROC_MAGIC)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2); an empty kind or no options are NULL."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _checked(result, f"mount {source or kind} at {target}")


def enter_root(directory: str) -> None:
    """Make a mount point the root and the working directory; the old root is nowhere any more."""
    os.chdir(directory)
    _checked(_libc.syscall(_call("pivot_root"), b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def set_hostname(name: str) -> None:
    _checked(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def raise_loopback() -> None:
    """Bring up `lo` of this network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        found = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
        flags = struct.unpack("16sH14x", found)[1] | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))


def end_with_parent(number: int) -> None:
    """Ask for this signal when our parent ends. Forgotten when the user changes: ask again then."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, number), "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of whoever comes from us and loses its own."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1), "PR_SET_CHILD_SUBREAPER")


def set_open_to_own_user(is_open: bool) -> None:
    """Whether others of our user may read our memory, see our descriptors and trace us."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, int(is_open)), "PR_SET_DUMPABLE")


def forbid_new_privileges() -> None:
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")


def drop_capabilities() -> None:
    """Every set of them, for ourselves and all that we start."""
    for number in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails behind the last that this kernel has
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, bytes(24)), "capset")


def install_filter(program: bytes) -> None:
    """Hold every later system call of ours, and of all that we start, against a BPF program."""
    held = _FilterProgram(len(program) // 8, program)
    _checked(_libc.syscall(_call("seccomp"), _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(held)), "seccomp")


def landlock_version() -> int:
    """0 where this kernel has none."""
    found = _libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION_FLAG)
    )
    return max(int(found), 0)


def keep_beneath(directory: str, version: int) -> None:
    """By Landlock: from now on no file is opened or changed but those beneath a directory, however one came to it."""
    count = _LANDLOCK_RIGHTS.get(version, _LANDLOCK_RIGHTS[max(_LANDLOCK_RIGHTS)])
    rights = (1 << count) - 1
    attributes = struct.pack("Q", rights)
    rules = _checked(
        _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE_RULESET), attributes, ctypes.c_size_t(8), ctypes.c_uint(0)),
        "landlock_create_ruleset",
    )
    place = os.open(directory, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, place)
        _checked(
            _libc.syscall(
                ctypes.c_long(_LANDLOCK_ADD_RULE), ctypes.c_int(rules), ctypes.c_int(_LANDLOCK_PATH_BENEATH), rule,
                ctypes.c_uint(0),
            ),
            "landlock_add_rule",
        )  # fmt: skip
        _checked(
            _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT_SELF), ctypes.c_int(rules), ctypes.c_uint(0)),
            "landlock_restrict_self",
        )
    finally:
        os.close(place)
        os.close(rules)
