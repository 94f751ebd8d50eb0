"""Where limits are set, on machines of each kind: trees of files that stand for the kernel's."""

from pathlib import Path

import pytest

from tentalis.sandbox.cgroups import find_hierarchies, read_use, set_limits
from tentalis.sandbox.limits import Limits

LIMITS = Limits(memory_bytes=100 * 2**20, processes=32)


class Machine:
    """What the kernel would tell of its mounts and of our own groups."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts = root / "mountinfo"
        self.own = root / "cgroup"
        self.mounts.write_text("22 1 0:20 / / rw - ext4 /dev/vda rw\n")
        self.own.write_text("")

    def add(self, kind: str, options: str, own: str, path: str) -> Path:
        point = self.root / (options or "unified")
        (point / path.lstrip("/")).mkdir(parents=True)
        number = len(self.own.read_text().splitlines())
        with self.mounts.open("a") as mounts, self.own.open("a") as owned:
            mounts.write(f"3{number} 1 0:3{number} / {point} rw shared:{number} - {kind} {kind} rw,{options}\n")
            owned.write(f"{number}:{own}:{path}\n")
        return point / path.lstrip("/")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_without_any_has_none(machine: Machine) -> None:
    assert find_hierarchies("ours", mounts=machine.mounts, own=machine.own) == []


def test_version_1_has_a_tree_for_each(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = machine.add("cgroup", "memory", "memory", "/service") / "ours"
    pids = machine.add("cgroup", "pids", "pids", "/") / "ours"
    machine.add("cgroup", "cpu,cpuacct", "cpu,cpuacct", "/")
    machine.add("cgroup2", "", "", "/")
    for group, files in ((memory, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")), (pids, ("pids.max",))):
        _let_kernel_fill(monkeypatch, group, files)
    found = find_hierarchies("ours", mounts=machine.mounts, own=machine.own)
    assert [(tree.version, tree.controllers, tree.root) for tree in found] == [
        (1, ("memory",), memory),
        (1, ("pids",), pids),
    ]
    (memory / "0").mkdir()
    (pids / "0").mkdir()
    set_limits(found, "0", LIMITS)
    assert (memory / "0/memory.limit_in_bytes").read_text() == str(100 * 2**20)
    assert (memory / "0/memory.memsw.limit_in_bytes").read_text() == str(100 * 2**20)
    assert (pids / "0/pids.max").read_text() == "32"
    (memory / "0/memory.usage_in_bytes").write_text("4096\n")
    (memory / "0/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (pids / "0/pids.current").write_text("3\n")
    assert read_use(found, "0") == {"memory_bytes": 4096, "memory_kills": 2, "processes": 3}


def test_version_2_has_one_tree_that_hands_its_controllers_down(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = machine.add("cgroup2", "", "", "/user/service")
    (service / "cgroup.controllers").write_text("cpu memory pids\n")
    _let_kernel_fill(monkeypatch, service / "ours", ("memory.max", "memory.swap.max", "pids.max"))
    found = find_hierarchies("ours", mounts=machine.mounts, own=machine.own)
    assert [(tree.version, tree.controllers, tree.root) for tree in found] == [
        (2, ("memory", "pids"), service / "ours")
    ]
    assert (service / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (service / "ours/cgroup.subtree_control").read_text() == "+memory +pids"
    (service / "ours/0").mkdir()
    set_limits(found, "0", LIMITS)
    limits = [(service / "ours/0" / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")]
    assert limits == [str(100 * 2**20), "0", "32"]
    (service / "ours/0/memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert read_use(found, "0") == {"memory_kills": 1}


def test_a_tree_we_may_not_write_in_is_none_of_ours(machine: Machine) -> None:
    machine.add("cgroup2", "", "", "/")
    found = find_hierarchies("ours", mounts=machine.mounts, own=machine.own)
    assert found == []  # it hands no controller down


def _let_kernel_fill(monkeypatch: pytest.MonkeyPatch, root: Path, files: tuple[str, ...]) -> None:
    """A group under `root` has files from the moment it is made, and goes although it has them, as with the kernel."""
    make, remove = Path.mkdir, Path.rmdir

    def mkdir(self: Path, *arguments: object, **options: object) -> None:
        make(self, *arguments, **options)  # type: ignore[arg-type]
        if self.parent == root:
            for file in files:
                (self / file).touch()

    def rmdir(self: Path) -> None:
        if self.parent == root:
            for file in files:
                (self / file).unlink()
        remove(self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
