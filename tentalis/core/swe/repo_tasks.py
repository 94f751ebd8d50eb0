"""A task in a repository: what is asked, what says that it is done, and what a run of its tests comes to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from tentalis.core.canon import content_hash

SCHEMA: Final = "tentalis.repo-task.v1"
PARSERS: Final = ("pytest", "unittest", "django", "cases", "script")
SCRIPTED: Final = "reward"
"""The one test of a task whose script says by itself what the work is worth."""
MAX_TESTS: Final = 20_000
MAX_TESTS_S: Final = 3_000.0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_DIGEST: Final = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
_UNITTEST: Final = re.compile(r"(\w+) \(([\w.]+)\)")


class RepoTaskError(ValueError):
    """A task that cannot be used as it is written: the field, what was wanted, what was found."""


class Status(StrEnum):
    """What a candidate's patch came to. The last two say nothing of it: they are tried again, and are never a
    reward."""

    RESOLVED = "resolved"
    F2P_PARTIAL = "f2p_partial"
    P2P_REGRESSED = "p2p_regressed"
    PATCH_REJECTED = "patch_rejected"
    TESTS_MISSING = "tests_missing"
    TIMEOUT = "timeout"
    BUILD_ERROR = "build_error"
    INFRA_ERROR = "infra_error"


UNKNOWN: Final = frozenset({Status.BUILD_ERROR, Status.INFRA_ERROR})
REWARDED: Final = frozenset({Status.RESOLVED, Status.F2P_PARTIAL})
"""What a script said counts with these alone: of all others something was wrong with how it came to say it."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What tests run in.

    Args:
        python: a version such as 3.11, or the whole path of an interpreter of this machine; "": the machine's own.
        wheels: file name -> sha256 of each wheel that is installed, in the task's `wheelhouse`.
        image: of a container, as NAME@sha256:…; it wants a container engine.
        plugins: of pytest that are loaded; no others are.
        variables: of the processes that run tests.
    """

    python: str = ""
    wheels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    plugins: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A test as data: an expression in the candidate's code, and what it has to come to.

    What is wanted never gets to where the candidate's code runs.

    Args:
        code: lines of Python; the value of the last, which is an expression, counts.
        wanted: `repr` of a plain value, or `raised NAME`.
    """

    id: str
    code: str
    wanted: str


@dataclass(frozen=True, kw_only=True)
class RepoTask:
    """One of them.

    Args:
        issue: what is asked, as an agent reads it.
        repo: a directory or a git bundle beside the task; base_commit: of the bundle, "" of a directory.
        test_patch: what adds or changes the tests that decide; gold_patch: a fix, shown to nobody.
        fail_to_pass, pass_to_pass: names of tests, as the parser's runner names them. Before it is known which they
            are, files or modules of tests (`admitting.find_tests`).
        parser: whose tests they are; command: of django, the script and its arguments; else further options. `script`:
            the task brings a script that writes a reward (`verification.harbor`).
        roots: directories of the repository that its modules are imported from.
        sources: paths that are source though their names look like tests; a directory ends with a slash.
        timeout_s: of all tests together.
        cases: of the parser `cases`.
    """

    name: str
    issue: str
    repo: str = "repo"
    base_commit: str = ""
    test_patch: str = ""
    gold_patch: str = ""
    fail_to_pass: Sequence[str] = ()
    pass_to_pass: Sequence[str] = ()
    parser: str = "pytest"
    command: Sequence[str] = ()
    roots: Sequence[str] = (".",)
    sources: Sequence[str] = ()
    timeout_s: float = 300.0
    environment: Environment = field(default_factory=Environment)
    cases: Sequence[Case] = ()

    def __post_init__(self) -> None:
        _check(self)

    @property
    def tests(self) -> list[str]:
        """All that have to run."""
        return [*self.fail_to_pass, *self.pass_to_pass]

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, stored: Any) -> "RepoTask":
        """Raises RepoTaskError for what is none."""
        if not isinstance(stored, Mapping) or stored.get("schema") != SCHEMA:
            found = stored.get("schema") if isinstance(stored, Mapping) else type(stored).__name__
            raise RepoTaskError(f"schema: wanted {SCHEMA}, found {found!r:.80}")
        given = {name: value for name, value in stored.items() if name != "schema"}
        try:
            given["environment"] = Environment(**_known(Environment, given.get("environment", {}), "environment"))
            cases = given.get("cases", ())
            given["cases"] = [Case(**_known(Case, one, "cases")) for one in cases]
            return cls(**_known(cls, given, "a task"))
        except TypeError as error:
            raise RepoTaskError(str(error).replace("__init__() ", "")) from None


def _known(kind: Any, given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise RepoTaskError(f"{where}: wanted an object, found {type(given).__name__}")
    names = [one.name for one in fields(kind)]
    if unknown := sorted(set(given) - set(names)):
        raise RepoTaskError(f"{where}: wanted {', '.join(names)}, found {', '.join(map(str, unknown))}")
    return dict(given)


def _check(task: RepoTask) -> None:
    texts = ("name", "issue", "repo", "base_commit", "test_patch", "gold_patch", "parser")
    for name in texts:
        if not isinstance(value := getattr(task, name), str) or "\0" in value:
            raise RepoTaskError(f"{name}: wanted a text, found {value!r:.80}")
    for name in ("fail_to_pass", "pass_to_pass", "command", "roots", "sources"):
        value = getattr(task, name)
        if isinstance(value, str) or not all(isinstance(one, str) and one for one in value):
            raise RepoTaskError(f"{name}: wanted a list of texts, found {value!r:.80}")
    if not _NAME.fullmatch(task.name):
        raise RepoTaskError(f"name: wanted letters, digits, '.', '_' and '-', found {task.name!r:.80}")
    if task.parser not in PARSERS:
        raise RepoTaskError(f"parser: wanted one of {', '.join(PARSERS)}, found {task.parser!r:.80}")
    if not task.issue.strip():
        raise RepoTaskError("issue: wanted words that say what is asked, found none")
    if not task.fail_to_pass:
        raise RepoTaskError("fail_to_pass: wanted a test that tells a fix from none, found none")
    if len(task.tests) > MAX_TESTS:
        raise RepoTaskError(f"wanted at most {MAX_TESTS:,} tests, found {len(task.tests):,}")
    if twice := [one for one in set(task.tests) if task.tests.count(one) > 1][:3]:
        raise RepoTaskError(f"wanted each test once, found twice: {', '.join(sorted(twice))}")
    if isinstance(task.timeout_s, bool) or not 0 < task.timeout_s <= MAX_TESTS_S:
        raise RepoTaskError(f"timeout_s: wanted more than 0 and at most {MAX_TESTS_S:,.0f}, found {task.timeout_s!r}")
    _check_environment(task.environment)
    if any(not isinstance(value, str) for case in task.cases for value in (case.id, case.code, case.wanted)):
        raise RepoTaskError("cases: wanted texts as id, code and wanted, found something else")
    if task.environment.image and not _DIGEST.fullmatch(task.environment.image):
        raise RepoTaskError(f"image: wanted NAME@sha256:DIGEST, found {task.environment.image!r:.80}")
    if task.parser == "django" and not task.command:
        raise RepoTaskError("command: wanted the script that runs django's tests, such as manage.py test, found none")
    known = {case.id for case in task.cases}
    if task.parser == "cases" and (missing := [one for one in task.tests if one not in known]):
        raise RepoTaskError(f"cases: wanted one of each test, found none of {missing[0]}")


def _check_environment(environment: Environment) -> None:
    for name in ("python", "image"):
        if not isinstance(value := getattr(environment, name), str) or "\0" in value:
            raise RepoTaskError(f"{name}: wanted a text, found {value!r:.80}")
    for name in ("wheels", "variables"):
        value = getattr(environment, name)
        if not isinstance(value, Mapping) or not all(isinstance(one, str) for pair in value.items() for one in pair):
            raise RepoTaskError(f"{name}: wanted texts by name, found {value!r:.80}")
    plugins: Any = environment.plugins
    if isinstance(plugins, str | Mapping) or not all(isinstance(one, str) and one for one in plugins):
        raise RepoTaskError(f"plugins: wanted a list of texts, found {plugins!r:.80}")


def hash_task(task: RepoTask, repo_hash: str) -> str:
    """Of all that decides what a patch comes to; what people read of it is not in it."""
    told = {name: value for name, value in task.to_json().items() if name not in {"name", "issue", "gold_patch"}}
    return content_hash([told, repo_hash])


def name_unittest(name: str) -> str:
    """`test_x (pkg.mod.Class)` or `test_x (pkg.mod.Class.test_x)`, as runners print it, by its whole name
    `pkg.mod.Class.test_x`; any other name as it is."""
    if found := _UNITTEST.fullmatch(name.strip()):
        return found[2] if found[2].endswith(f".{found[1]}") else f"{found[2]}.{found[1]}"
    return name


@dataclass(frozen=True, kw_only=True)
class TestRun:
    """What running the tests of a task came to.

    Args:
        outcomes: test -> passed, failed, error or skipped; one that did not run is not in it.
        words: test -> what it said, of those that did not pass.
        tampering: what the code under test did to who was testing it.
        ended: "" where the run came to its own end, else how it ended.
        reward: what a script said, in [0, 1].
    """

    __test__ = False

    outcomes: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    tampering: Sequence[str] = ()
    timed_out: bool = False
    ended: str = ""
    output: str = ""
    elapsed_s: float = 0.0
    reward: float | None = None


def judge_run(task: RepoTask, run: TestRun) -> tuple[Status, str]:
    """The status, and a line of words. A test that did not run, or was skipped, has not passed."""
    if run.tampering:
        return Status.PATCH_REJECTED, f"it changed how it was tested: {run.tampering[0]}"
    if run.timed_out:
        return Status.TIMEOUT, f"its tests took longer than {task.timeout_s:g} s"
    if missing := [one for one in task.tests if one not in run.outcomes]:
        ended = f"; {run.ended}" if run.ended else ""
        return Status.TESTS_MISSING, f"{len(missing)} of {len(task.tests)} tests did not run: {missing[0]}{ended}"
    if run.ended:
        return Status.TESTS_MISSING, run.ended
    for names, status, what in (
        (task.pass_to_pass, Status.P2P_REGRESSED, "tests that passed before do not any more"),
        (task.fail_to_pass, Status.F2P_PARTIAL, "tests that have to pass do not"),
    ):
        if wrong := [one for one in names if run.outcomes[one] != "passed"]:
            said = run.words.get(wrong[0], "") or run.outcomes[wrong[0]]
            return status, f"{len(wrong)} of {len(names)} {what}: {wrong[0]}: {said}"[:500]
    return Status.RESOLVED, "every test passes"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a candidate's patch came to.

    Args:
        stripped: parts of it that were left out: (path, why).
        outcomes: of tests, those missing too.
        task_hash, environment_hash, patch_hash: what it holds for.
        reward: what a task's own script said; None of all other tasks, and where its word does not count.
        tries: how often it was run, where something else than the patch went wrong.
    """

    status: Status
    words: str
    stripped: Sequence[tuple[str, str]] = ()
    tampering: Sequence[str] = ()
    outcomes: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    elapsed_s: float = 0.0
    tries: int = 1
    reward: float | None = None
    task_hash: str = ""
    environment_hash: str = ""
    patch_hash: str = ""

    def __post_init__(self) -> None:
        if self.status not in REWARDED:
            object.__setattr__(self, "reward", None)

    @property
    def is_resolved(self) -> bool:
        return self.status is Status.RESOLVED

    @property
    def is_known(self) -> bool:
        """Whether it says anything of the patch."""
        return self.status not in UNKNOWN

    @property
    def outcome(self) -> float | None:
        """What the patch is worth, in [0, 1]; None where nothing is known of it."""
        if not self.is_known:
            return None
        return float(self.is_resolved) if self.reward is None else self.reward

    def count_passed(self, names: Sequence[str]) -> int:
        return sum(self.outcomes.get(one) == "passed" for one in names)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Report":
        return cls(**{**stored, "status": Status(stored["status"])})
