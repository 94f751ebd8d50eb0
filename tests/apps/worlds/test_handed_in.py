"""Tasks of own repositories that are handed in: sent in parts, looked at in sandboxes, added or quarantined."""

import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.accounts.models import Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.outbox.links import run_links
from apps.outbox.models import Segment
from apps.pipeline import admitting as handing_in
from apps.worlds.models import RepoTaskAdmission
from apps.worlds.repos import uploads
from apps.worlds.repos.testing import open_store
from tentalis.core.edge_limits import EdgeLimits
from tentalis.core.swe.repo_tasks import SCHEMA
from tentalis.sandbox.client import start_host
from tests.apps.console.builders import sign_in
from tests.edges.caller import Answer, Caller
from tests.sandbox.conftest import find_obstacle
from tests.verification.repos import FILES, GOLD, PYTEST, make_task, make_wheel

pytestmark = pytest.mark.django_db(transaction=True)
TEST_PATCH = """diff --git a/tests/test_late.py b/tests/test_late.py
new file mode 100644
--- /dev/null
+++ b/tests/test_late.py
@@ -0,0 +1,5 @@
+import calc
+
+
+def test_add():
+    assert calc.add(2, 2) == 4
"""


@pytest.fixture(scope="module")
def sandboxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    directory = tmp_path_factory.mktemp("host")
    with start_host(directory, warm=1):
        yield directory


@pytest.fixture
def artifacts(tmp_path: Path, settings: Any) -> Path:
    settings.ARTIFACTS = tmp_path
    return tmp_path


@pytest.fixture
def admin(artifacts: Path, alice: User) -> User:
    User.objects.filter(pk=alice.pk).update(is_superuser=True)
    alice.refresh_from_db()
    return alice


def call(user: User, project: Project | None = None) -> Caller:
    return Caller(create_token(user=user, name="t", scopes=Right.values, by=user, project=project)[1])


def send(caller: Caller, data: bytes, *, at_once: int = 700_000) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    for offset in range(0, len(data), at_once):
        part = b64encode(data[offset : offset + at_once]).decode()
        told = caller.post(f"uploads/{sha256}", {"size_bytes": len(data), "offset": offset, "part": part})
        assert told.status == 200, told
    return sha256


def pack(files: Mapping[str, bytes], *, top: str = "") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for path, held in files.items():
            entry = tarfile.TarInfo(top + path)
            entry.size = len(held)
            tar.addfile(entry, io.BytesIO(held))
    return content.getvalue()


def make_row(**changed: Any) -> dict[str, Any]:
    """As SWE-bench writes one."""
    return {
        "instance_id": "calc-7", "repo": "own/calc", "base_commit": "0" * 40,
        "problem_statement": "Sums come out wrong.", "patch": GOLD, "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": '["tests/test_late.py::test_add"]',
        "PASS_TO_PASS": '["tests/test_plain.py::test_absolute"]', **changed,
    }  # fmt: skip


def hand_in(caller: Caller, *rows: Mapping[str, Any], **said: Any) -> Answer:
    return caller.post("repo-tasks", {"text": "\n".join(map(json.dumps, rows)), "split": "train", **said})


def go_on() -> None:
    """Do the links that are due, as queue processes would."""
    while due := Segment.objects.filter(kind="admit", state="open", fence=None).first():
        run_links([due.pk], due.position)


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_comes_in_parts_in_order_and_is_there_once(project: Project, admin: User) -> None:
    data, caller = bytes(range(256)) * 9, call(admin)
    sha256 = hashlib.sha256(data).hexdigest()
    path = f"uploads/{sha256}"
    assert caller.get(path).body == {"sha256": sha256, "received_bytes": 0, "whole": False}

    def add(offset: int, part: bytes) -> Answer:
        said = {"size_bytes": len(data), "offset": offset, "part": b64encode(part).decode()}
        return caller.post(path, said)

    assert add(0, data[:1000]).body["received_bytes"] == 1000
    again = add(0, data[:1000])
    assert (again.status, "wanted the part from 1,000 on, found one from 0 on" in again.body["detail"]) == (409, True)
    assert add(1000, data[1000:]).body == {"sha256": sha256, "received_bytes": len(data), "whole": True}
    assert add(0, data[:9]).body["whole"]
    assert AuditEntry.objects.get(kind="upload.stored").payload == {"sha256": sha256, "size_bytes": len(data)}


def test_what_is_not_what_its_hash_says_begins_anew(project: Project, admin: User, artifacts: Path) -> None:
    caller, sha256 = call(admin), "0" * 64
    told = caller.post(f"uploads/{sha256}", {"size_bytes": 2, "offset": 0, "part": b64encode(b"ab").decode()})
    assert told.status == 400
    assert "wanted 2 bytes of sha256 000000000000…, found fb8e20fc2e4c…" in told.body["detail"]
    assert caller.get(f"uploads/{sha256}").body["received_bytes"] == 0


def test_files_are_limited_one_by_one_and_together(
    project: Project, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LIMITS", EdgeLimits(upload_bytes=10, uploads_bytes=15))
    caller = call(admin)
    send(caller, b"0123456789")
    large = caller.post(f"uploads/{'1' * 64}", {"size_bytes": 11, "offset": 0, "part": "YQ=="})
    assert (large.status, "wanted 1 to 10 bytes, found 11" in large.body["detail"]) == (400, True)
    full = caller.post(f"uploads/{'1' * 64}", {"size_bytes": 6, "offset": 0, "part": b64encode(b"abcdef").decode()})
    assert (full.status, "wanted at most 15 bytes" in full.body["detail"]) == (409, True)


def test_only_an_admin_with_a_free_token_sends_and_hands_in(project: Project, admin: User, bob: User) -> None:
    repository = send(call(admin), pack(FILES))
    for caller in (call(bob), call(admin, project)):
        assert caller.get(f"uploads/{repository}").status == 403
        assert caller.post(f"uploads/{repository}", {"size_bytes": 1, "offset": 0, "part": "YQ=="}).status == 403
        assert hand_in(caller, make_row(), repository=repository).status == 403
    assert call(bob).get("repo-task-admissions").body == {"results": []}
    assert not RepoTaskAdmission.objects.exists()


# --- what is handed in -----------------------------------------------------------------------------------------------


def test_a_row_of_swe_bench_is_admitted_added_and_on_record(
    project: Project, admin: User, sandboxes: Path, settings: Any
) -> None:
    settings.SANDBOXES = sandboxes
    caller = call(admin)
    wheels = {name: send(caller, content) for name, content in map(make_wheel, PYTEST)}
    repository = send(caller, pack(FILES, top="calc-0000000/"))
    told = hand_in(caller, make_row(), repository=repository, wheels=wheels, split="held_out")
    assert told.status == 201, told
    [asked] = told.body["results"]
    assert (asked["state"], asked["runs"], asked["runs_wanted"], asked["tests"]) == ("queued", 0, 6, None)
    go_on()
    found = caller.get(f"repo-task-admissions/{asked['id']}").body
    assert (found["state"], found["runs"], found["tests"], found["reason"]) == ("admitted", 6, 2, "")
    [task] = caller.get("repo-tasks").body["results"]
    assert (task["name"], task["split"]) == (found["added_as"], "held_out")
    loaded = open_store().find(task["name"]).load()
    assert (loaded.files.keys(), loaded.task.parser, loaded.task.base_commit) == (FILES.keys(), "pytest", "")
    kinds = AuditEntry.objects.filter(subject_type="repotaskadmission").order_by("pk").values_list("kind", "actor")
    assert list(kinds) == [
        ("repo_task.asked", "user:alice"), ("repo_task.started", "worlds"), ("repo_task.admitted", "worlds"),
    ]  # fmt: skip


def test_a_bundle_holds_the_commits_of_several_rows(
    project: Project, admin: User, sandboxes: Path, settings: Any, tmp_path: Path
) -> None:
    settings.SANDBOXES = sandboxes
    clone, commits = tmp_path / "clone", []
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(clone)]
    for path, content in FILES.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_bytes(content)
    subprocess.run([*git, "init", "--quiet"], check=True)
    for words in ("first", "second"):
        (clone / "NOTES").write_text(words)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", words], check=True)
        commits.append(subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip())
    subprocess.run([*git, "bundle", "create", "--quiet", str(tmp_path / "calc.bundle"), "--all"], check=True)
    names = {"FAIL_TO_PASS": ["tests.test_calc.CalcTest.test_add"], "PASS_TO_PASS": [], "test_patch": ""}
    rows = [make_row(instance_id=f"calc-{n}", base_commit=commit, **names) for n, commit in enumerate(commits)]
    caller = call(admin)
    repository = send(caller, (tmp_path / "calc.bundle").read_bytes())
    assert hand_in(caller, *rows, repository=repository, parser="unittest").status == 201
    go_on()
    found = {row.name: row.state for row in RepoTaskAdmission.objects.all()}
    assert found == {"calc-0": "admitted", "calc-1": "admitted"}
    notes = [one.load().files["NOTES"] for one in open_store().list_tasks("train")]
    assert notes == [b"first", b"second"]
    lone = hand_in(caller, *rows, repository=send(caller, pack(FILES)), parser="unittest")
    assert lone.status == 400
    assert "wanted a git bundle for rows of 2 commits, found an archive" in lone.body["errors"]["repository"][0]


def test_what_tells_nothing_is_quarantined_with_the_reason_and_the_next_goes_on(
    project: Project, admin: User, sandboxes: Path, settings: Any
) -> None:
    settings.SANDBOXES = sandboxes
    caller = call(admin)
    good = make_task(name="calc-1").to_json()
    rows = [
        {**good, "name": "passes", "fail_to_pass": good["pass_to_pass"], "pass_to_pass": []},
        {**good, "name": "unsolved", "gold_patch": ""},
        {**good, "name": "unreadable", "gold_patch": "@@"},
        good,
        {**good, "name": "twin"},
    ]
    assert hand_in(caller, *rows, repository=send(caller, pack(FILES))).status == 201
    assert Segment.objects.filter(kind="admit").count() == handing_in.AT_ONCE
    go_on()
    found = {one["name"]: (one["state"], one["reason"]) for one in caller.get("repo-task-admissions").body["results"]}
    assert found["passes"][0] == found["unsolved"][0] == found["unreadable"][0] == "quarantined"
    assert "passes on the base, and should fail there" in found["passes"][1]
    assert found["unsolved"][1] == "there is no gold patch"
    assert found["unreadable"][1].startswith("the gold patch cannot be read: ")
    assert found["calc-1"] == found["twin"] == ("admitted", "")
    assert hand_in(caller, good, repository=send(caller, pack(FILES))).status == 201
    go_on()
    last = RepoTaskAdmission.objects.first()
    assert last is not None
    assert (last.state, last.reason.endswith("was added before")) == ("quarantined", True)
    assert len(open_store().list_tasks()) == 2


def test_who_was_killed_behind_adding_it_knows_it_again(
    project: Project, admin: User, sandboxes: Path, settings: Any
) -> None:
    settings.SANDBOXES = sandboxes
    hand_in(call(admin), make_task().to_json(), repository=send(call(admin), pack(FILES)))
    go_on()
    RepoTaskAdmission.objects.update(state="running")
    Segment.objects.update(state="open", position=0, fence=None)
    go_on()
    assert [row.state for row in RepoTaskAdmission.objects.all()] == ["admitted"]
    assert len(open_store().list_tasks()) == 1


def test_where_nothing_can_be_found_out_it_fails_with_the_reason(
    project: Project, admin: User, sandboxes: Path, settings: Any, tmp_path: Path
) -> None:
    settings.SANDBOXES = sandboxes
    caller = call(admin)
    task = make_task().to_json()
    assert (
        hand_in(caller, {**task, "environment": {"python": "3.99"}}, repository=send(caller, pack(FILES))).status == 201
    )
    go_on()
    gone = send(caller, pack(FILES | {"NOTES": b""}))
    assert hand_in(caller, {**task, "name": "gone"}, repository=gone).status == 201
    (tmp_path / "uploads" / gone).unlink()
    go_on()
    found = {row.name: (row.state, row.reason) for row in RepoTaskAdmission.objects.all()}
    assert found["calc"] == ("failed", "python: wanted 3.99 on this machine, found none")
    assert found["gone"][0] == "failed"
    assert found["gone"][1].startswith("repository: wanted the sha256 of a file that was sent, found ")
    assert not Segment.objects.filter(state="dead").exists()


def test_faults_of_rows_are_named_by_line_and_nothing_is_taken(project: Project, admin: User) -> None:
    caller = call(admin)
    repository = send(caller, pack(FILES))
    rows = [make_row(), make_row(instance_id="no name"), {"schema": SCHEMA, "name": "x"}, make_row()]
    told = hand_in(caller, *rows, repository=repository)
    assert told.status == 400
    assert [one.partition(": ")[0] for one in told.body["errors"]["text"]] == ["line 2", "line 3", "line 4"]
    assert "wanted each task once, found calc-7 again" in told.body["errors"]["text"][2]
    path = {**make_task().to_json(), "environment": {"python": "/usr/bin/python3"}}
    for row, said, field in (
        (make_row(), {"repository": "0" * 64}, "repository"),
        (make_row(), {"wheels": {"six-1-py3-none-any.whl": "0" * 64}}, "wheels"),
        (make_row(), {"wheels": {"../six.whl": repository}}, "wheels"),
        (path, {}, "text"),
        ({**path, "environment": {}, "parser": "script"}, {}, "text"),
    ):
        refused = hand_in(caller, row, **{"repository": repository, **said})
        assert (refused.status, list(refused.body["errors"])) == (400, [field]), refused
    assert not RepoTaskAdmission.objects.exists()


def test_a_file_that_is_no_repository_is_said_to_be_none(
    project: Project, admin: User, sandboxes: Path, settings: Any
) -> None:
    settings.SANDBOXES = sandboxes
    caller, packed = call(admin), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../calc.py", b"x = 1")
    for number, content in enumerate((b"no repository", packed.getvalue(), b"# v2 git bundle\n")):
        row = make_row(instance_id=f"calc-{number}")
        assert hand_in(caller, row, repository=send(caller, content)).status == 201
    go_on()
    said = [row.reason for row in RepoTaskAdmission.objects.order_by("pk")]
    assert said[0].startswith("repo: wanted a git bundle, or a zip or tar (gzip, bzip2, xz) of its files, found none")
    assert said[1] == "repo: wanted paths within the archive, found '../calc.py'"
    assert said[2].startswith("repo: git says ")


# --- on its page -----------------------------------------------------------------------------------------------------


def test_a_form_with_small_files_hands_tasks_in_and_the_list_shows_each(
    project: Project, admin: User, sandboxes: Path, settings: Any
) -> None:
    settings.SANDBOXES = sandboxes
    place, listed = (reverse(f"console:repo-task-{name}", args=("shop",)) for name in ("add", "list"))
    pages = sign_in(admin)
    rows = "\n".join(json.dumps({**make_task().to_json(), **one}) for one in ({}, {"name": "bad", "gold_patch": ""}))

    def post(**said: Any) -> str:
        files = {"text": SimpleUploadedFile("rows.jsonl", rows.encode()), "split": "held_out", "python": "", "sent": ""}
        shown: str = pages.post(place, {**files, **said}, follow=True).content.decode()
        return shown

    assert "wanted the sha256 of a file that was sent" in post()
    assert "2 tasks are looked at." in post(repository=SimpleUploadedFile("calc.tgz", pack(FILES)))
    assert "0 of 6" in pages.get(listed).content.decode()
    go_on()
    shown = pages.get(f"{listed}?fragment=repo_task_admissions").content.decode()
    assert ("added as calc@" in shown, "there is no gold patch" in shown, "6 of 6" in shown) == (True, True, True)
    assert pages.get(place).status_code == 200


def test_a_form_names_what_was_sent_before_by_its_hashes(project: Project, admin: User) -> None:
    caller, (name, wheel) = call(admin), make_wheel("iniconfig")
    sent = {"repository": {"calc.tgz": send(caller, pack(FILES))}, "wheels": {name: send(caller, wheel)}}
    place = reverse("console:repo-task-add", args=("shop",))
    rows = SimpleUploadedFile("rows.jsonl", json.dumps(make_row()).encode())
    pages = sign_in(admin)
    pages.post(place, {"text": rows, "split": "train", "sent": json.dumps(sent)})
    row = RepoTaskAdmission.objects.get()
    assert (row.repository, row.task["environment"]["wheels"]) == (sent["repository"]["calc.tgz"], sent["wheels"])
    for wrong in ("[1]", '{"text": {}}', '{"wheels": {"a": 1}}'):
        rows.seek(0)
        refused = pages.post(place, {"text": rows, "split": "train", "sent": wrong})
        assert (refused.status_code, "Wanted hashes of the files" in refused.content.decode()) == (400, True)


def test_who_is_no_admin_is_told_so_and_hands_nothing_in(project: Project, alice: User, artifacts: Path) -> None:
    project.members.filter(user=alice).update(role=Role.OWNER)
    place, pages = reverse("console:repo-task-add", args=("shop",)), sign_in(alice)
    shown = pages.get(place).content.decode()
    assert ("This takes an admin of the installation" in shown, '<form class="form"' in shown) == (True, False)
    rows = SimpleUploadedFile("rows.jsonl", json.dumps(make_row()).encode())
    repository = SimpleUploadedFile("calc.tgz", pack(FILES))
    assert pages.post(place, {"text": rows, "split": "train", "repository": repository}).status_code == 403
    assert not (artifacts / "uploads").exists()
