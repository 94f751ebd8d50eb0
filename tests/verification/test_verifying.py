"""What a patch comes to, whatever goes wrong around it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any
from zipfile import ZipFile

import pytest

from tentalis.core.swe.patches import write_patch
from tentalis.core.swe.repo_tasks import Environment, Report, RepoTaskError, Status
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.sandbox.errors import SandboxLostError
from tentalis.verification import verifying
from tentalis.verification.admitting import admit_task
from tentalis.verification.environments import find_interpreter
from tentalis.verification.harbor import load_harbor
from tentalis.verification.loading import LoadedTask, load_task, save_task
from tentalis.verification.verifying import KeptInFiles, KeptInMemory, Verifier
from tests.verification.repos import CHEATS, FILES, GOLD, SOURCE, load, make_cases_task, make_task, patch_of

WRONG = patch_of({"calc.py": SOURCE.decode().replace("a - b", "a * b")})


def test_a_patch_is_known_by_how_its_tests_come_out(verifier: Verifier) -> None:
    report = verifier.verify(load(make_task()), WRONG)
    assert report.status is Status.F2P_PARTIAL
    assert report.outcomes == {
        "tests.test_calc.CalcTest.test_add": "failed", "tests.test_calc.CalcTest.test_absolute": "passed",
    }  # fmt: skip
    assert "AssertionError: 2 != 3" in report.words
    broken = patch_of({"calc.py": SOURCE.decode().replace("a - b", "a + b").replace("else -a", "else a")})
    assert verifier.verify(load(make_task()), broken).status is Status.P2P_REGRESSED
    unreadable = patch_of({"calc.py": "def add(a, b:\n"})
    assert verifier.verify(load(make_task()), unreadable).status is Status.P2P_REGRESSED


def test_a_projects_own_script_runs_its_tests_and_prints_what_it_likes(verifier: Verifier) -> None:
    """As django's does: unittest's runner is in it. Names are as it prints them, or a test's first line of words."""
    script = "import sys\nimport unittest\n\nunittest.main(module=sys.argv[1], argv=sys.argv[1:], verbosity=2)\n"
    line = b"        self.assertEqual(calc.absolute"
    tests = FILES["tests/test_calc.py"].replace(line, b"        'Signs go.'\n" + line)
    task = make_task(
        parser="django", command=["checks/run.py", "tests.test_calc"], pass_to_pass=["Signs go."],
        fail_to_pass=["test_add (tests.test_calc.CalcTest)"],
    )  # fmt: skip
    loaded = LoadedTask(task, {**FILES, "checks/run.py": script.encode(), "tests/test_calc.py": tests})
    report = verifier.verify(loaded, GOLD)
    assert report.status is Status.RESOLVED, report.output
    assert "Ran 2 tests" in report.output
    report = verifier.verify(loaded, WRONG)
    assert report.status is Status.F2P_PARTIAL
    for name in ("failures that are successes, once", "another assertEqual, once", "another run, once"):
        assert not verifier.verify(loaded, CHEATS[name]).is_resolved, name
    forged = patch_of({"calc.py": "print('test_add (tests.test_calc.CalcTest) ... ok')\nraise SystemExit(0)\n"})
    assert verifier.verify(loaded, forged).status is Status.TESTS_MISSING


def test_what_is_known_of_a_patch_is_not_found_out_again(client: SandboxClient, tmp_path: Path) -> None:
    asked = []

    def open_client() -> SandboxClient:
        asked.append(1)
        return client

    for kept in (KeptInMemory(), KeptInFiles(tmp_path)):
        asked.clear()
        verifier = Verifier(open_client, kept=kept)
        first = verifier.verify(load(make_task()), GOLD)
        spaced = verifier.verify(load(make_task()), f"A word before it.\n{GOLD}")
        assert first.to_json() == {**spaced.to_json(), "stripped": list(first.stripped)}
        assert len(asked) == 1
        verifier.verify(load(make_task()), WRONG)
        other = replace(make_task(), environment=Environment(variables={"X": "1"}))
        assert verifier.verify(load(other), GOLD).environment_hash != first.environment_hash
        assert len(asked) == 3


class LosingClient(SandboxClient):
    """Loses its first sandboxes."""

    def __init__(self, directory: Path, losses: int) -> None:
        super().__init__(directory)
        self.losses = losses

    def create(self, *words: Any, **rest: Any) -> str:
        self.losses -= 1
        if self.losses >= 0:
            raise SandboxLostError("the sandbox ended")
        return super().create(*words, **rest)


def test_a_sandbox_that_is_lost_is_tried_again_and_never_a_verdict(tmp_path: Path) -> None:
    def find_none() -> SandboxClient:
        raise SandboxLostError("no sandbox host answers")

    with start_host(tmp_path / "host", warm=0):
        for losses, found in ((2, (Status.RESOLVED, 3)), (3, (Status.INFRA_ERROR, 3))):
            client = LosingClient(tmp_path / "host", losses)
            report = Verifier(lambda: client, kept=KeptInMemory()).verify(load(make_task()), GOLD)  # noqa: B023
            client.close()
            assert (report.status, report.tries) == found
        assert (report.words, report.is_known) == ("the sandbox ended", False)
    report = Verifier(find_none).verify(load(make_task()), GOLD)
    assert (report.status, report.words) == (Status.INFRA_ERROR, "no sandbox host answers")


def test_a_host_that_was_started_anew_is_given_the_repository_again(tmp_path: Path) -> None:
    clients: list[SandboxClient] = []

    @contextmanager
    def hosting() -> Iterator[None]:
        with start_host(tmp_path / "host", warm=0):
            clients.append(SandboxClient(tmp_path / "host"))
            yield
            clients.pop().close()

    verifier = Verifier(lambda: clients[-1])
    for tries in (1, 2):
        with hosting():
            report = verifier.verify(load(make_cases_task()), GOLD)
            assert (report.status, report.tries) == (Status.RESOLVED, tries)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (Environment(python="3.1"), "python: wanted 3.1 on this machine, found none"),
        (Environment(python="/no/python3.11"), "wanted /no/python3.11 on this machine, found none"),
        (Environment(python="2"), "wanted a version such as 3.11"),
        (Environment(python="/bin/sh"), "wanted an interpreter"),
        (Environment(image="x@sha256:" + "0" * 64), "no container engine is used here"),
        (Environment(wheels={"x.whl": "0"}), "wanted x.whl in the task's wheelhouse"),
        (Environment(wheels={"../x.whl": "0"}), "wanted the name of a wheel"),
    ],
)
def test_an_environment_that_cannot_be_had_is_no_verdict(
    verifier: Verifier, environment: Environment, words: str
) -> None:
    report = verifier.verify(load(make_task(environment=environment)), GOLD)
    assert report.status is Status.BUILD_ERROR
    assert words in report.words


def test_a_wheel_is_the_one_that_was_pinned(verifier: Verifier, tmp_path: Path) -> None:
    for name, content in {"a.whl": b"no archive", "b.whl": b"another"}.items():
        (tmp_path / "wheelhouse").mkdir(exist_ok=True)
        (tmp_path / "wheelhouse" / name).write_bytes(content)
    wheels = {"a.whl": sha256(b"no archive").hexdigest()}
    for pinned, words in ((wheels, "found no archive"), ({"b.whl": "f" * 64}, "wanted the one of sha256 ffff")):
        task = make_task(environment=Environment(wheels=pinned))
        assert words in verifier.verify(LoadedTask(task, FILES, tmp_path), GOLD).words


def _wheel(version: str) -> bytes:
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr("adding.py", f"VERSION = {version!r}\n")
    return content.getvalue()


def test_two_sets_of_packages_are_verified_side_by_side(verifier: Verifier, tmp_path: Path) -> None:
    """The same repository: its fix is right with one version of what it uses, and wrong with the other."""
    files = {**FILES, "calc.py": SOURCE.replace(b"a - b", b"a - b  # later")}
    right = SOURCE.replace(b"a - b", b"a + b if adding.VERSION == '2' else 0").replace(
        b"def add", b"import adding\n\n\ndef add", 1
    )
    gold = write_patch(files, {"calc.py": right})
    found = {}
    for version in ("1", "2"):
        wheel = _wheel(version)
        environment = Environment(wheels={"adding-1.whl": sha256(wheel).hexdigest()})
        task = make_task(environment=environment, gold_patch=gold)
        save_task(task, files, tmp_path / version, wheels={"adding-1.whl": wheel})
        loaded = load_task(tmp_path / version)
        found[version] = verifier.verify(loaded, gold)
    assert [found[one].status for one in "12"] == [Status.F2P_PARTIAL, Status.RESOLVED]
    assert found["1"].environment_hash != found["2"].environment_hash


@pytest.mark.slow
def test_an_interpreter_from_elsewhere_is_brought_along(verifier: Verifier) -> None:
    """Only where this Python is not the machine's."""
    interpreter = find_interpreter("")
    others = [place for place in _list_pythons() if find_interpreter(str(place)).brought]
    if not others:
        pytest.skip("every Python of this machine lies beneath /usr")
    report = verifier.verify(load(make_task(environment=Environment(python=str(others[0])))), GOLD)
    assert report.status is Status.RESOLVED, report
    assert report.environment_hash != verifier.verify(load(make_task()), GOLD).environment_hash
    assert find_interpreter(str(others[0])).path != interpreter.path


def _list_pythons() -> list[Path]:
    return [Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"]


def test_a_commit_of_a_bundle_is_a_repository(verifier: Verifier, tmp_path: Path) -> None:
    def git(*argv: str) -> str:
        who = ["-c", "user.name=alice", "-c", "user.email=alice@example.org"]
        done = subprocess.run(["git", *who, *argv], cwd=tmp_path / "clone", check=True, capture_output=True, text=True)
        return done.stdout.strip()

    for path, content in FILES.items():
        (tmp_path / "clone" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "clone" / path).write_bytes(content)
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "base")
    commit = git("rev-parse", "HEAD")
    (tmp_path / "clone" / "calc.py").write_text("raise SystemExit\n")
    git("commit", "-q", "-a", "-m", "later")
    task = make_task(repo="repo.bundle", base_commit=commit)
    (tmp_path / "task").mkdir()
    git("bundle", "create", "-q", str(tmp_path / "task" / "repo.bundle"), "main")
    (tmp_path / "task" / "task.json").write_text(json.dumps(task.to_json()))
    loaded = load_task(tmp_path / "task")
    assert dict(loaded.files) == FILES
    assert verifier.verify(loaded, GOLD).is_resolved
    with pytest.raises(RepoTaskError, match="git says"):
        other = replace(task, base_commit="f" * 40)
        (tmp_path / "task" / "task.json").write_text(json.dumps(other.to_json()))
        load_task(tmp_path / "task")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "No such file"),
        ({"task.json": b"{"}, "wanted JSON"),
        ({"task.json": json.dumps(make_task().to_json()).encode()}, "wanted a directory or a git bundle"),
        ({"task.json": json.dumps(make_task(repo="x").to_json()).encode(), "x": b"b"}, "base_commit: wanted one of x"),
    ],
)
def test_a_directory_that_holds_no_task_is_said(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RepoTaskError, match=words):
        load_task(tmp_path)


def test_a_small_repository_takes_a_tenth_of_a_second(verifier: Verifier) -> None:
    """How long exactly, `make bench BENCH=swe` measures; here, that it is no matter of seconds."""
    taken = []
    for number in range(5):
        started = time.monotonic()
        verifier.verify(load(make_cases_task()), patch_of({"calc.py": f"VALUE = {number}\n"}))
        taken.append(time.monotonic() - started)
    assert median(taken) < 5.0


MANY_TESTS = b"""import unittest

import calc


class ManyTest(unittest.TestCase):
    pass


def check(self):
    self.assertEqual(calc.add(1, 2), 3, "that went wrong: " + "x" * 200)


for number in range(COUNT):
    setattr(ManyTest, "test_case_of_something_that_has_to_be_added_up_%05d" % number, check)
"""


@pytest.mark.parametrize("broken", ["return a - b", "return a +"])
def test_a_patch_that_breaks_thousands_of_tests_is_a_failure(verifier: Verifier, broken: str) -> None:
    count = 3_200
    names = [f"tests.test_many.ManyTest.test_case_of_something_that_has_to_be_added_up_{n:05}" for n in range(count)]
    task = make_task(fail_to_pass=names[-1:], pass_to_pass=names[:-1], timeout_s=120.0)
    loaded = load(task, {**FILES, "tests/test_many.py": MANY_TESTS.replace(b"COUNT", b"%d" % count)})
    report = verifier.verify(loaded, patch_of({"calc.py": SOURCE.decode().replace("return a - b", f"{broken}  #")}))
    assert (report.status, report.tries, report.outcome) == (Status.P2P_REGRESSED, 1, 0.0)
    assert f"{names[0]}: " in report.words
    assert len(report.outcomes) == count


def test_a_report_that_is_cut_is_a_failure_in_words(verifier: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verifying.LIMITS, "output_bytes", 100)
    report = verifier.verify(load(make_task()), GOLD)
    assert (report.status, report.tries, report.outcome) == (Status.TESTS_MISSING, 1, 0.0)
    assert report.words.endswith("its tests say more than is read")


# --- Harbor's form ---------------------------------------------------------------------------------------------------

DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /app\nENV GREETING=hello\nCOPY . .\n"
TEST = """echo 0 > /logs/verifier/reward.txt
[ "$(cat answer.txt)" = "$GREETING world" ] && echo 1 > /logs/verifier/reward.txt
"""


def make_harbor(place: Path, **changed: str) -> Path:
    files = {
        "task.toml": 'version = "1.0"\n[verifier]\ntimeout_sec = 20.0\n', "instruction.md": "Write a greeting.\n",
        "environment/Dockerfile": DOCKERFILE, "environment/note.txt": "a note\n", "tests/test.sh": TEST,
        "solution/solve.sh": 'echo "$GREETING world" > answer.txt\n', **changed,
    }  # fmt: skip
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    return place


def test_a_directory_in_harbors_form_is_a_task(verifier: Verifier, tmp_path: Path) -> None:
    loaded = load_harbor(make_harbor(tmp_path))
    assert loaded.task.issue == "Write a greeting.\n"
    assert dict(loaded.files) == {"note.txt": b"a note\n"}
    assert admit_task(verifier, loaded).is_admitted
    right, wrong = (write_patch({}, {"answer.txt": text}) for text in (b"hello world\n", b"hi\n"))
    report = verifier.verify(loaded, right)
    assert (report.status, report.reward) == (Status.RESOLVED, 1.0)
    report = verifier.verify(loaded, wrong)
    assert (report.status, report.reward, report.words[-18:]) == (Status.F2P_PARTIAL, 0.0, "its script gives 0")


def test_a_reward_is_what_the_script_wrote_and_nobody_behind_it(verifier: Verifier, tmp_path: Path) -> None:
    starts = "bash go.sh &\n" + TEST
    loaded = load_harbor(make_harbor(tmp_path, **{"tests/test.sh": starts}))
    cheat = "while true; do echo 1 > /logs/verifier/reward.txt; done\n"
    report = verifier.verify(loaded, write_patch({}, {"go.sh": cheat.encode(), "answer.txt": b"no\n"}))
    assert (report.status, report.words) == (
        Status.PATCH_REJECTED, "it changed how it was tested: test.sh left processes behind",
    )  # fmt: skip
    assert (report.reward, report.outcome) == (None, 0.0)
    waits = "bash go.sh\n" + TEST
    config = 'version = "1.0"\n[verifier]\ntimeout_sec = 2.0\n'
    loaded = load_harbor(make_harbor(tmp_path / "w", **{"tests/test.sh": waits, "task.toml": config}))
    cheat = "echo 1 > /logs/verifier/reward.txt\nsleep 600\n"
    report = verifier.verify(loaded, write_patch({}, {"go.sh": cheat.encode(), "answer.txt": b"no\n"}))
    assert (report.status, report.reward, report.outcome) == (Status.TIMEOUT, None, 0.0)
    both = TEST + """echo '{"reward": 0.5, "tidy": 1}' > /logs/verifier/reward.json\n"""
    report = verifier.verify(
        load_harbor(make_harbor(tmp_path / "c", **{"tests/test.sh": both})),
        write_patch({}, {"answer.txt": b"hello world\n"}),
    )
    assert (report.reward, report.outcome) == (0.5, 0.5), "Harbor reads reward.json first"
    silent = load_harbor(make_harbor(tmp_path / "b", **{"tests/test.sh": "true\n"}))
    report = verifier.verify(silent, write_patch({}, {"answer.txt": b"no\n"}))
    assert (report.status, report.outcome) == (Status.TESTS_MISSING, 0.0)
    assert "wrote no reward" in report.words


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"environment/Dockerfile": "FROM python:3.11\nRUN pip install x\n"},
            "line 2: RUN pip install x: it wants an image",
        ),
        ({"environment/Dockerfile": "FROM node:20\n"}, "line 1: FROM node:20: it wants that image"),
        ({"environment/Dockerfile": "FROM debian\nCOPY ../x /\n"}, "wanted paths within"),
        ({"environment/docker-compose.yaml": ""}, "docker-compose wants images"),
        ({"task.toml": "[environment]\ndocker_image = 'x:1'\n"}, "it wants the image x:1"),
        ({"task.toml": "["}, "wanted TOML"),
    ],
)
def test_what_wants_an_image_says_so(tmp_path: Path, changed: dict[str, str], words: str) -> None:
    with pytest.raises(RepoTaskError, match=words):
        load_harbor(make_harbor(tmp_path, **changed))


@pytest.mark.parametrize(
    "cheat", ["printf '[%.0s' {1..4096} > $P; exit", "echo 1 > $P; chmod 0 $P; exit"], ids=["depth", "locked"]
)
def test_a_reward_that_cannot_be_read_is_none_and_no_fault_of_ours(
    verifier: Verifier, tmp_path: Path, cheat: str
) -> None:
    loaded = load_harbor(make_harbor(tmp_path, **{"tests/test.sh": "P=/logs/verifier/reward.json\n. ./go.sh\n" + TEST}))
    report = verifier.verify(loaded, write_patch({}, {"go.sh": cheat.encode()}))
    assert (report.status, report.outcome) == (Status.TESTS_MISSING, 0.0)
    assert "its script wrote '" in report.words


def test_a_repository_may_hold_names_that_are_no_text(verifier: Verifier, tmp_path: Path) -> None:
    """As of an archive that was packed elsewhere."""
    (tmp_path / "repo").mkdir()
    save_task(make_task(), FILES, tmp_path)
    place = Path(os.fsdecode(os.fsencode(tmp_path / "repo") + b"/data-\xe9.txt"))
    place.write_bytes(b"before\n")
    loaded = load_task(tmp_path)
    before = loaded.hash
    assert verifier.verify(loaded, GOLD).status is Status.RESOLVED
    place.write_bytes(b"behind\n")
    assert load_task(tmp_path).hash != before
    touched = write_patch(loaded.files, {place.name: b"another\n"})
    assert verifier.verify(loaded, touched + GOLD).status is Status.RESOLVED


def test_of_large_repositories_those_that_were_used_last_are_kept_at_the_host(tmp_path: Path) -> None:
    with start_host(tmp_path / "host", warm=0):
        client = SandboxClient(tmp_path / "host")
        verifier = Verifier(lambda: client, most_images=1)
        tasks = [LoadedTask(make_task(), {**FILES, "data": bytes([place]) * 400_000}) for place in range(3)]
        for loaded in (*tasks, tasks[0]):
            assert verifier.verify(loaded, GOLD).status is Status.RESOLVED
        assert len(list((tmp_path / "host/store/layers").iterdir())) == 1
        client.close()


def test_a_report_that_cannot_be_kept_is_told_all_the_same(tmp_path: Path) -> None:
    kept, report = KeptInFiles(tmp_path / "cache"), Report(status=Status.RESOLVED, words="")
    (tmp_path / "cache").write_text("no directory")
    kept.put("key", report)
    assert kept.get("key") is None
    (tmp_path / "cache").unlink()
    kept.put("key", report)
    found = kept.get("key")
    assert found is not None
    assert found.status is Status.RESOLVED
