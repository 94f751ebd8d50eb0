"""Which system calls a sandbox may make: BPF programs, made by libseccomp.

The list is what Docker's default profile allows a container without capabilities, minus what reads or steers other
processes (ptrace, process_vm_readv, prlimit64 of others) or what programs of today do without. What is not on it does
not exist (ENOSYS), what is named as refused is not permitted (EPERM).
Source: github.com/moby/profiles, seccomp/default.json at cd3bed80: nothing is allowed here that is not allowed there.
"""

import ctypes
import errno
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from tentalis.sandbox.errors import SandboxUnavailableError

ALLOWED: Final = """
accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group
faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait
futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid
getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init
inotify_init1 inotify_rm_watch ioctl ioprio_get kill landlock_add_rule landlock_create_ruleset
landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat
madvise map_shadow_stack membarrier memfd_create mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap
mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv
msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal
pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 pselect6 pwrite64 pwritev
pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat renameat2
restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto
set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr shmat shmctl shmdt shmget shutdown
sigaltstack signalfd signalfd4 socketpair splice stat statfs statx symlink symlinkat sync sync_file_range syncfs
sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork wait4
waitid write writev
""".split()  # noqa: SIM905
REFUSED: Final = """
acct add_key bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen
fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load
keyctl lookup_dcookie mbind migrate_pages mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl
open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv
process_vm_writev ptrace quotactl quotactl_fd reboot request_key set_mempolicy get_mempolicy sethostname
setdomainname setns settimeofday swapoff swapon syslog umount2 unshare userfaultfd vhangup
""".split()  # noqa: SIM905
"""Named so that a program is told that it may not, instead of that there is no such thing."""
OUTLIVING: Final = ("shmget", "semget", "msgget")
"""What makes things of System V, which outlive who made them: refused where the kernel takes no limits of them."""

NAMESPACE_FLAGS: Final = 0x7E020000  # every CLONE_NEW* that clone(2) takes
PERSONALITIES: Final = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
FAMILIES: Final = (1, 2, 10, 16)  # of sockets: unix, IPv4, IPv6, netlink
TERMINAL_REQUESTS: Final = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal
_LOW_HALF: Final = 0xFFFFFFFF  # the kernel reads no more of a request; the rest may be anything

_ALLOW: Final = 0x7FFF0000
_EQUAL, _MASKED_EQUAL = 4, 7
_ON_OTHER_MACHINE, _OPTIMIZE = 2, 8  # attributes of a filter


class _Compared(ctypes.Structure):
    _fields_ = (
        ("place", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class _Rule(NamedTuple):
    """A call with one of its arguments: equal to `value`, seen through `seen` where that is given."""

    name: str
    place: int
    value: int
    seen: int | None = None


def compile_filters() -> tuple[bytes, bytes]:
    """The list of what is allowed, and what of that is refused for its arguments. Both must be installed."""
    library = _load_library()
    refused = _refuse(errno.EPERM)
    allowing = _Program(library, _refuse(errno.ENOSYS))
    for name in ALLOWED:
        allowing.add(_ALLOW, name)
    for name in REFUSED:
        allowing.add(refused, name)
    allowing.add_compared(_ALLOW, _Rule("clone", 0, 0, NAMESPACE_FLAGS))
    allowing.add_compared(_ALLOW, _Rule("prlimit64", 0, 0))  # its own limits, not its neighbours'
    for value in PERSONALITIES:
        allowing.add_compared(_ALLOW, _Rule("personality", 0, value))
    for value in FAMILIES:
        allowing.add_compared(_ALLOW, _Rule("socket", 0, value))
    refusing = _Program(library, _ALLOW)
    for value in TERMINAL_REQUESTS:
        refusing.add_compared(refused, _Rule("ioctl", 1, value, _LOW_HALF))
    return allowing.export(), refusing.export()


def compile_outliving_filter() -> bytes:
    """Refuses what is `OUTLIVING`, and nothing else."""
    program = _Program(_load_library(), _ALLOW)
    for name in OUTLIVING:
        program.add(_refuse(errno.EPERM), name)
    return program.export()


def _refuse(number: int) -> int:
    return 0x00050000 | number


def _load_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        raise SandboxUnavailableError("wanted libseccomp.so.2 (Debian: libseccomp2), found none") from None
    library.seccomp_init.restype = ctypes.c_void_p
    return library


class _Program:
    def __init__(self, library: ctypes.CDLL, otherwise: int) -> None:
        self._library = library
        self._otherwise = otherwise
        self._filter = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(otherwise)))
        if self._filter.value is None:
            raise SandboxUnavailableError("libseccomp makes no filter")
        if otherwise != _ALLOW:  # a call by another machine's numbers (i386, x32) does not exist
            self._checked(library.seccomp_attr_set(self._filter, _ON_OTHER_MACHINE, ctypes.c_uint32(otherwise)), "")
        library.seccomp_attr_set(self._filter, _OPTIMIZE, ctypes.c_uint32(2))  # a tree; older ones make a list

    def add(self, action: int, name: str, compared: Sequence[_Compared] = ()) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # unknown to this libseccomp, or not a call of this machine
            return
        held = (_Compared * len(compared))(*compared)
        added = self._library.seccomp_rule_add_array(
            self._filter, ctypes.c_uint32(action), number, ctypes.c_uint(len(compared)), held
        )
        self._checked(added, name)

    def add_compared(self, action: int, rule: _Rule) -> None:
        if rule.seen is None:
            compared = _Compared(rule.place, _EQUAL, rule.value, 0)
        else:
            compared = _Compared(rule.place, _MASKED_EQUAL, rule.seen, rule.value)
        self.add(action, rule.name, (compared,))

    def export(self) -> bytes:
        descriptor = os.memfd_create("filter")
        try:
            self._checked(self._library.seccomp_export_bpf(self._filter, descriptor), "export")
            return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        finally:
            os.close(descriptor)
            self._library.seccomp_release(self._filter)

    def _checked(self, result: int, what: str) -> None:
        if result < 0:
            raise SandboxUnavailableError(f"libseccomp refuses {what}: {os.strerror(-result)}")
