"""Personal data and secrets: masked before anything is kept for training, and deleted when a person asks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from apps.accounts.models import Project, User
from apps.audit.chain import seal_entries, verify_chain
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, NotAllowedError
from apps.conversations.models import Forgetting, Turn
from apps.conversations.redaction import Redactor
from apps.erasure.records import find_person, forget_person
from apps.evals.services import ItemRow, add_items
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback, Hint
from apps.feedback.side_by_side import open_pair
from apps.inference.models import Exchange, Session
from apps.pipeline import flow
from apps.rollouts.files import write_batch
from apps.rollouts.models import Batch, Rollout
from apps.rollouts.services import build_rollouts
from apps.tasks.models import FROM_SESSION, Step, Task
from apps.workers.models import Worker
from tentalis.core.worlds import PanelItem
from tests.apps.conversations.talk import Talk, user
from tests.factories import make_judged_task, make_measured, make_task, make_user

Read = Callable[[Talk], list[Turn]]
PLANTED = {
    "EMAIL": "grace.hopper@navy.example.org",
    "IBAN": "DE89 3704 0044 0532 0130 00",
    "CARD": "4111 1111 1111 1111",
    "PHONE": "+49 30 901820",
    "IP": "203.0.113.7",
    "SECRET": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "NAME": "Grace Hopper",
}


@pytest.mark.parametrize(("what", "planted"), PLANTED.items())
def test_each_kind_is_found_and_masked(what: str, planted: str) -> None:
    masked = Redactor(["Grace Hopper"]).mask(f"Before {planted}, after.")
    assert masked.text == f"Before [{what}], after."
    assert masked.found == {what: 1}
    assert Redactor(["Grace Hopper"], is_on=False).mask(planted).text == planted


@pytest.mark.parametrize(
    "text",
    [
        "Return: lamp for 30 EUR after 20 days. Refund?",
        "<step> 2 * 7 = 14</step><step> ship 14 + 5 = 19</step>",
        "At 10:20:30 on 2026-11-21, order 4131, version 5.2.19, commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "Set the password in the form, then press enter.",
        "card 4111 1111 1111 1112, IBAN DE00 3704 0044 0532 0130 00",
        "## Make It Yours\n\nAdd conventions as you learn what works.",  # stands in every prompt of OpenClaw
    ],
)
def test_ordinary_words_and_numbers_stay(text: str) -> None:
    assert Redactor(["Grace Hopper"]).mask(text).text == text


@pytest.mark.parametrize("introduces", ["My name is {}", "Regards,\n\n{}", "Kind regards\n{}", "Yours, {}", "Yours {}"])
def test_who_introduces_themselves_is_found(introduces: str) -> None:
    assert Redactor().mask(introduces.format("Ada Byron")).text == introduces.format("[NAME]")


@pytest.mark.parametrize(
    "text",
    ["password: hunter2-really", "api_key='abcd1234efgh'", "tnt_a1b2c3_0123456789abcdef", "AKIAIOSFODNN7EXAMPLE"],
)
def test_secrets_of_every_form_are_found(text: str) -> None:
    assert "[SECRET]" in Redactor().mask(text).text


def talk_of_everything(project: Project) -> Talk:
    talk = Talk(project, "private", end_user="Grace Hopper")
    talk.ask(user(f"I am Grace Hopper, write to {PLANTED['EMAIL']} and {PLANTED['PHONE']}."), answer="Written.")
    talk.ask(
        user(f"No, that's wrong. Pay from {PLANTED['IBAN']} with key {PLANTED['SECRET']} for grace hopper."),
        answer=f"Paid from {PLANTED['IBAN']}.",
    )
    talk.ask(user("Thanks!"), answer="You are welcome.")
    return talk


def kept_for_training() -> str:
    rows: list[object] = [
        *Task.objects.values_list("prompt", "answer", "metadata"),
        *Step.objects.values_list("text", "tool_result"),
        *Feedback.objects.values_list("text", "edited_answer", "hint_text"),
        *Hint.objects.values_list("text", "reason"),
        *Turn.objects.values_list("reason", "signals__answer", "signals__hint", "signals__reason"),
        *AuditEntry.objects.values_list("payload"),
    ]
    return json.dumps(rows, default=str)


def learn(turns: list[Turn]) -> list[Rollout]:
    for turn in turns:
        if turn.task is not None:
            extract_hints([turn.task.pk])
            build_rollouts([turn.task.pk], by="test")
    return list(Rollout.objects.order_by("id"))


def read_files(project: Project, directory: Path) -> str:
    batch = Batch.objects.filter(project=project).first()
    if batch is None:
        return ""
    uri, _ = write_batch(batch)
    return Path(uri.removeprefix("file://")).read_text()


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ARTIFACTS", tmp_path)
    return tmp_path


def test_nothing_planted_reaches_what_is_kept_for_training(talk: Talk, read: Read, artifacts: Path) -> None:
    project = talk.session.project
    private = talk_of_everything(project)
    rollouts = learn(read(private))
    assert [rollout.is_usable for rollout in rollouts] == [False, False]
    assert "personal data or secrets in its tokens: EMAIL" in rollouts[0].unusable_reason
    kept = kept_for_training() + read_files(project, artifacts)
    assert [what for what, words in PLANTED.items() if words.lower() in kept.lower()] == []
    assert "[EMAIL]" in kept


def test_with_only_the_loss_masked_the_answer_that_holds_something_teaches_nothing(
    talk: Talk, read: Read, artifacts: Path
) -> None:
    project = talk.session.project
    project.session_policy |= {"redaction": "mask_loss_only"}
    project.save()
    first, second = learn(read(talk_of_everything(project)))
    assert (first.is_usable, second.is_usable) == (True, True)
    lines = [json.loads(line) for line in read_files(project, artifacts).splitlines()]
    assert [any(line["sampled"]) for line in lines] == [True, False]
    assert [(line["messages"], line["hinted_messages"]) for line in lines] == [([], None), ([], None)]
    kept = kept_for_training() + json.dumps(lines)
    assert [what for what, words in PLANTED.items() if words.lower() in kept.lower()] == []


def make_owner(project: Project) -> User:
    owner = make_user("olivia")
    project.members.create(user=owner, role="owner")
    return owner


def test_a_person_is_forgotten_and_others_are_not(talk: Talk, read: Read, artifacts: Path) -> None:
    project = talk.session.project
    project.session_policy |= {"redaction": "off"}
    project.save()
    owner = make_owner(project)
    talk.ask(user("What is two and two?"), answer="It is four.")
    talk.ask(user("Thanks"), answer="Bye.")
    learn([*read(talk), *read(talk_of_everything(project))])
    assert PLANTED["EMAIL"] in read_files(project, artifacts)
    found = find_person(project=project, by=owner, end_user="Grace Hopper")
    assert (found.counts["sessions"], found.counts["exchanges"], found.counts["tasks"]) == (1, 3, 2)
    assert Session.objects.count() == 2  # looking deletes nothing
    # as `on_commit` does in a request
    done = forget_person(project=project, by=owner, end_user="Grace Hopper")
    for path in found.files:
        path.unlink(missing_ok=True)
    assert done.counts == dict(found.counts)
    assert (Session.objects.get(), Exchange.objects.count(), Task.objects.count()) == (talk.session, 2, 1)
    batch = Batch.objects.get()
    assert (batch.task_count, batch.rollout_count) == (1, 1)
    assert list(artifacts.glob("batches/*")) == []
    kept = kept_for_training() + read_files(project, artifacts) + str(list(Forgetting.objects.values()))
    assert [what for what, words in PLANTED.items() if words.lower() in kept.lower()] == []
    entry = AuditEntry.objects.get(kind="person.forgotten")
    assert entry.payload["subject_hash"] == done.subject_hash
    seal_entries()
    assert verify_chain().faults == []


def test_tasks_made_of_a_persons_conversations_go_with_them_and_with_what_copied_their_words(
    talk: Talk, alice: User, artifacts: Path
) -> None:
    project, words = talk.session.project, "Where is the lamp that I sent to Arlington?"
    owner, worker = make_owner(project), Worker.objects.get()
    private = Talk(project, "private", end_user="gh")
    private.ask(user(words), answer="On its way.")
    talk.ask(user("What is two and two?"), answer="It is four.")
    sessions = [private.session.pk, talk.session.pk]
    hers, other = flow.submit_asked(project=project, sessions=sessions, environment="chat", by=alice, worker=worker)
    assert hers.prompt == words
    Exchange.objects.create(project=project, model="m", task_id=hers.pk, messages=[user(words)], text="It is lost.")
    for task in (hers, other):
        made = [ItemRow(1, task.prompt, "held_out", source=f"task {task.pk}")]
        add_items(project=project, name="own", environment="chat", rows=made, by=owner)
        open_pair(worker, "chat", PanelItem(prompt=task.prompt), ["7", "8"], people=1, by="gate")
        run = make_measured(worker, None, [], items=f"own/{task.pk}")
        make_task(project, worker, prompt=task.prompt, evaluation=run)
        make_task(project, worker, prompt=f"Another: {task.prompt}", evaluation=run)
    judged = make_judged_task(project, worker, prompt="Anything", metadata={FROM_SESSION: private.session.pk})
    build_rollouts([judged.pk], by="test")
    [batch] = Batch.objects.filter(uses__rollout__task=judged).distinct()
    found = find_person(project=project, by=owner, end_user="gh")
    assert (found.counts["tasks"], found.counts["items"], found.counts["exchanges"]) == (4, 1, 4)
    assert found.batches == [batch.pk], "whose adapters may not serve"
    forget_person(project=project, by=owner, end_user="gh")
    assert sorted(Task.objects.filter(prompt__contains=words).values_list("prompt", flat=True)) == [f"Another: {words}"]
    assert Task.objects.filter(prompt=other.prompt).count() == 3
    assert not Exchange.objects.filter(task_id=hers.pk).exists()


def test_a_text_is_found_wherever_it_stands(talk: Talk, read: Read) -> None:
    project = talk.session.project
    owner = make_owner(project)
    talk.ask(user("What is two and two?"), answer="It is 100% “four”.")
    talk.ask(user("No, Konrad says that's wrong"), answer="Bye.")
    read(talk)
    for text, sessions in (("konrad", 1), ("100% “four”", 1), ("100_", 0), ("nobody said this", 0)):
        assert find_person(project=project, by=owner, text=text).counts["sessions"] == sessions, text
    forget_person(project=project, by=owner, text="KONRAD")
    assert not Exchange.objects.filter(project=project).exists()
    assert not Turn.objects.exists()


@pytest.mark.parametrize(
    "asked", [{}, {"end_user": "a", "text": "bcd"}, {"end_user": "e"}, {"text": "ab"}, {"text": "x" * 501}]
)
def test_what_is_to_be_forgotten_must_be_said_clearly(project: Project, asked: dict[str, str]) -> None:
    with pytest.raises(BadInputError):
        forget_person(project=project, by=make_owner(project), **asked)


def test_a_short_name_is_forgotten_where_a_conversation_has_exactly_that(project: Project) -> None:
    owner = make_owner(project)
    Talk(project, end_user="al").ask(user("Hello"), answer="Hello.")
    with pytest.raises(BadInputError, match="that none has"):
        find_person(project=project, by=owner, end_user="a")
    assert find_person(project=project, by=owner, end_user="al").counts["sessions"] == 1


def test_only_owners_forget(project: Project, alice: User) -> None:
    with pytest.raises(NotAllowedError):
        find_person(project=project, by=alice, end_user="Grace Hopper")
