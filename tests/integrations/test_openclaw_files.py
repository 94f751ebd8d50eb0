"""The skills' script against the real application; what `tentalis openclaw configure` prints. No OpenClaw needed."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import Member, Project, Role
from apps.accounts.rights import ROLE_RIGHTS
from apps.accounts.tokens import create_token
from apps.feedback.models import Feedback, Review
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tentalis.cli import main
from tentalis.cli.openclaw import SKILLS
from tests.factories import make_task, make_user, make_worker
from tests.integrations.openclaw_process import FILES


@dataclass(frozen=True)
class Skill:
    """The script in an agent's environment."""

    url: str
    token: str

    def __call__(self, *words: str, given: str = "") -> tuple[int, Any, str]:
        """Exit code, answer, and what it complained."""
        environment = {"PATH": os.environ["PATH"], "TENTALIS_URL": self.url, "TENTALIS_AGENT_KEY": self.token}
        argv = [sys.executable, "-I", str(FILES / "skills" / "tentalis.py"), *words]
        done = subprocess.run(
            argv, env=environment, input=given, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@pytest.fixture
def skill(transactional_db: None, project: Project, live_server: LiveServer) -> Skill:
    make_worker(project)
    agent = make_user("lobster", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    token = create_token(user=agent, name="t", scopes=ROLE_RIGHTS[Role.AGENT], by=agent, project=project)[1]
    return Skill(live_server.url, token)


def test_work_is_given_handed_in_and_judged(skill: Skill) -> None:
    code, task, _ = skill("assign", "-", "--metadata", '{"from": "claw"}', given="Say \"hello\" & 'bye'.\n")
    assert code == 0
    row = Task.objects.get()
    assert (task["id"], row.prompt, row.metadata) == (row.pk, "Say \"hello\" & 'bye'.\n", {"from": "claw"})
    number = str(row.pk)
    assert skill("check", "--task", number)[1]["state"] == "queued"
    steps = json.dumps(["Thought.", {"text": "lookup 17", "kind": "call", "tool_name": "lookup"}])
    assert skill("result", "--task", number, "--steps", steps, "Hello.")[0] == 0
    assert [step.tool_name for step in Attempt.objects.get().steps.all()] == ["", "lookup"]
    assert skill("feedback", "--task", number, "--score", "0", "--better", "Hello!", "Too dry.")[0] == 0
    given = Feedback.objects.get()
    assert (given.score, given.text, given.edited_answer) == (0.0, "Too dry.", "Hello!")


def read_commands(name: str) -> list[list[str]]:
    """The words behind the script of each example in a skill's file, without what is read from standard input."""
    text = (FILES / "skills" / name / "SKILL.md").read_text(encoding="utf-8")
    found = re.findall(r"^python3 \{baseDir\}/\.\./tentalis\.py (.*)$", text, re.MULTILINE)
    return [shlex.split(line.partition(" <<")[0]) for line in found]


def test_every_example_of_the_skills_files_works(skill: Skill, project: Project) -> None:
    reviewer = make_user("bob")
    Member.objects.filter(user=reviewer).update(role=Role.REVIEWER)
    token = create_token(user=reviewer, name="t", scopes=ROLE_RIGHTS[Role.REVIEWER], by=reviewer, project=project)[1]
    judge = Skill(skill.url, token)
    echo = Worker.objects.get(project=project)
    waiting = make_task(project, echo)
    reviews = []
    for _ in range(2):
        task = make_task(project, echo, state=Task.State.IN_REVIEW)
        Attempt.objects.create(task=task, index=0, worker=echo, answer="hi", text="hi")
        reviews.append(Review.objects.create(project=project, task=task, audience=Review.Audience.HUMAN))
    names = {"NAME": echo.name, "NUMBER": str(waiting.pk)}
    answers: dict[str, Any] = {}
    for file in ("assign-task", "wait-for-work", "check-task", "submit-result", "submit-feedback"):
        for words in read_commands(file):
            if file in ("check-task", "wait-for-work"):
                words[words.index("--wait") + 1] = "0"
            code, answers[file], said = skill(*[names.get(word, word) for word in words], given="Some words.")
            assert code == 0, (file, said)
    assert answers["wait-for-work"]["id"] == waiting.pk
    assert answers["check-task"]["state"] == "queued"
    assert judge(*[names.get(word, word) for word in read_commands("list-adapters")[0]])[1] == {"adapters": []}
    for review, words in zip(reviews, read_commands("submit-review"), strict=True):
        code, claimed, said = judge(*read_commands("claim-review")[0])
        assert (code, claimed["review"], claimed["answers"][0]["answer"]) == (0, review.pk, "hi"), said
        code, _, said = judge(*[{"NUMBER": str(review.pk)}.get(word, word) for word in words], given="Some words.")
        assert code == 0, said
    assert judge("claim")[1] == {}
    given = Feedback.objects.get(review=reviews[0])
    assert (given.score, given.text, given.preferred_attempt is not None) == (0.5, "Some words.", True)
    assert {path.parent.name for path in (FILES / "skills").glob("*/SKILL.md")} == set(SKILLS)


def test_who_waits_for_work_gets_what_waits_longest_however_much_there_is(skill: Skill, project: Project) -> None:
    echo = Worker.objects.get(project=project)
    first = make_task(project, echo)
    rows = [{field.attname: getattr(first, field.attname) for field in Task._meta.concrete_fields} for _ in range(200)]
    Task.objects.bulk_create(Task(**{**row, "id": None}) for row in rows)
    assert skill("wait", "--worker", echo.name)[1]["id"] == first.pk


def test_the_same_key_acts_once(skill: Skill) -> None:
    first = skill("assign", "--key", "k-1", "Once.")
    assert first == skill("assign", "--key", "k-1", "Once.")
    assert Task.objects.count() == 1


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("assign", "--worker", "nobody", "Hello."), 1, "no worker 'nobody'"),
        (("assign", "--environment", "casino", "Hello."), 1, "casino"),
        (("assign", "--metadata", "[]", "Hello."), 1, "must be a JSON object"),
        (("result", "--task", "987654", "Hello."), 1, "[not_found]"),
        (("feedback", "--session", "nobody", "Good."), 1, "no session 'nobody'"),
        (("feedback", "--task", "1", "--score", "7", "Good."), 2, "must be from 0 to 1"),
        (("feedback", "Good."), 2, "--task"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(skill: Skill, words: tuple[str, ...], code: int, complaint: str) -> None:
    found, answer, said = skill(*words)
    assert (found, answer) == (code, None), said
    assert complaint in said
    assert "Traceback" not in said


def test_an_unanswered_call_says_how_to_ask_again(skill: Skill) -> None:
    code, _, said = Skill("http://127.0.0.1:1", skill.token)("assign", "--project", "shop", "Hello.")
    assert code == 3
    assert re.search(r"run the same command again with --key [0-9a-f-]{36}\n", said)
    assert skill.token not in said
    assert Skill(skill.url, "")("check", "--task", "1")[0] == 1


def configure(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    with pytest.raises(SystemExit) as leaving:
        main(["openclaw", "configure", *words])
    assert not leaving.value.code
    return json.loads(capsys.readouterr().out)


def test_the_configuration_names_everything_but_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    patch = configure(capsys, "worker-1", "worker-2", "--gateway", "http://box:8200/", "--inbound")
    provider = patch["models"]["providers"]["tentalis"]
    assert (provider["baseUrl"], provider["apiKey"]) == ("http://box:8200/v1", "${TENTALIS_AGENT_KEY}")
    assert [model["id"] for model in provider["models"]] == ["worker-1", "worker-2"]
    assert all(model["compat"]["supportsPromptCacheKey"] for model in provider["models"])
    assert patch["agents"]["defaults"]["model"]["primary"] == "tentalis/worker-1"
    (plugin,), (skills,) = patch["plugins"]["load"]["paths"], patch["skills"]["load"]["extraDirs"]
    assert (Path(plugin) / "openclaw.plugin.json").is_file()
    assert sorted(path.parent.name for path in Path(skills).glob("*/SKILL.md")) == sorted(SKILLS)
    assert patch["plugins"]["entries"]["tentalis"]["hooks"] == {"allowConversationAccess": True}
    assert patch["gateway"]["http"]["endpoints"]["chatCompletions"] == {"enabled": True}
    assert set(configure(capsys, "worker-1", "--no-plugin", "--no-skills")) == {"models", "agents"}


def test_a_plain_agent_has_no_tools_and_reads_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    patch = configure(capsys, "worker-1", "worker-2", "--plain")
    models = patch["models"]["providers"]["tentalis"]["models"]
    assert [model["compat"]["supportsTools"] for model in models] == [False, False]
    assert patch["agents"]["defaults"]["skills"] == []
    assert patch["agents"]["defaults"]["contextInjection"] == "never"
    assert "skills" not in patch
    assert "plugins" in patch


STAND_IN = """#!/bin/sh
[ "$1 $2" = "config get" ] && {{ echo '["/mine"]'; exit 0; }}
[ "$1 $2" = "config patch" ] && {{ cat > {target}; exit {code}; }}
exit 9
"""


@pytest.mark.parametrize("code", [0, 1])
def test_applying_keeps_the_lists_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    program = tmp_path / "openclaw"
    program.write_text(STAND_IN.format(target=tmp_path / "patch.json", code=code))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SystemExit) as leaving:
        main(["openclaw", "configure", "worker-1", "--apply"])
    patch = json.loads((tmp_path / "patch.json").read_text())
    assert patch["plugins"]["load"]["paths"] == ["/mine", str(FILES / "plugin")]
    assert patch["skills"]["load"]["extraDirs"] == ["/mine", str(FILES / "skills")]
    assert (leaving.value.code or 0) == code
    said = capsys.readouterr()
    assert "TENTALIS_AGENT_KEY" in said.out if code == 0 else "openclaw config patch" in said.err


def test_a_checkout_without_the_files_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["openclaw", "configure", "worker-1", "--files", str(tmp_path)])
    assert leaving.value.code == 2
    assert "--files" in capsys.readouterr().err
