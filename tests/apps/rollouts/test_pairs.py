"""Pairs and demonstrations: who says so, how far it is trusted, told once, taken back, and traced to their person."""

import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.adapters.models import Adapter
from apps.base.errors import ConflictError
from apps.calibration.models import Rater
from apps.feedback.models import Feedback
from apps.feedback.submit import give_task_feedback
from apps.inference.client import Sample
from apps.inference.models import Exchange
from apps.pipeline import flow, judging
from apps.reports.lineage import find_people, trace_lineage
from apps.rollouts import services
from apps.rollouts.examples import find_several
from apps.rollouts.files import write_batch
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout
from apps.rollouts.pairing import read_whole
from apps.tasks.models import Attempt, Step, Task
from apps.tasks.services import save_steps
from apps.workers.agents.chat import read_sample
from apps.workers.models import Worker
from tentalis.core.contracts import AnswerRecord, DemonstrationRecord, PairRecord
from tentalis.core.packing import pack_int32
from tests.factories import add_call, make_attempt, make_task, make_user, make_worker


@pytest.fixture
def alice(project: Project) -> User:
    user = make_user("alice")
    Member.objects.get_or_create(project=project, user=user, defaults={"role": Role.MANAGER})
    return user


@pytest.fixture
def bob(project: Project) -> User:
    user = make_user("bob")
    Member.objects.get_or_create(project=project, user=user, defaults={"role": Role.REVIEWER})
    return user


def quarantine(project: Project, user: User) -> None:
    values = {"kind": Rater.Kind.PERSON, "quarantined_at": datetime(2026, 1, 1, tzinfo=UTC)}
    Rater.objects.create(project=project, handle=user.handle, **values)


def make_group(project: Project, texts: tuple[str, ...], outcomes: tuple[float | None, ...]) -> Task:
    worker = Worker.objects.filter(project=project).first() or make_worker(project)
    task = make_task(project, worker, state=Task.State.LEARNING, group_size=len(texts))
    for index, (text, outcome) in enumerate(zip(texts, outcomes, strict=True)):
        make_attempt(task, index, text=text, answer=text, outcome=outcome, score=outcome)
    return task


def build(task: Task) -> None:
    services.build_rollouts([task.pk], by="ledger")


def told() -> list[tuple[str, str, str]]:
    """(source, better, worse) of every pair."""
    return [
        (
            one.source,
            one.text or (one.chosen.text if one.chosen else ""),
            one.rejected_text or (one.rejected.text if one.rejected else ""),
        )
        for one in PreferencePair.objects.all()
    ]


def shown() -> list[tuple[str, str]]:
    return [(one.source, one.text or (one.attempt.text if one.attempt else "")) for one in Demonstration.objects.all()]


def read_lines(uri: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(uri.removeprefix("file://")).read_text().splitlines()]


def test_verified_rewards_order_attempts_each_pair_of_texts_once(project: Project) -> None:
    build(make_group(project, ("good", "bad", "bad"), (1.0, 0.0, 0.0)))
    assert told() == [("attempts", "good", "bad")]
    assert shown() == [("attempt", "good")]


def test_attempts_that_say_the_same_and_do_something_else_are_a_pair(project: Project) -> None:
    task = make_group(project, ("Done.", "Done.", "Done."), (1.0, 0.0, 0.0))
    steps = Step.objects.filter(attempt__task=task, index=0)
    for index, amount in enumerate((5, 7, 7)):
        steps.filter(attempt__index=index).update(kind="call", tool_name="refund", text=f'{{"amount": {amount}}}')
    build(task)
    [pair] = PreferencePair.objects.all()
    assert pair.chosen is not None
    assert pair.rejected is not None
    assert (pair.chosen.index, pair.rejected.index) == (0, 1), "who did the same is one to learn from"
    assert Demonstration.objects.count() == 1


def test_what_scorers_alone_say_orders_nothing(project: Project) -> None:
    task = make_group(project, ("good", "bad"), (None, None))
    Attempt.objects.filter(task=task, index=0).update(score=0.9)
    Attempt.objects.filter(task=task, index=1).update(score=0.1)
    build(task)
    assert Rollout.objects.filter(reward_source="scorers").count() == 2
    assert (told(), shown()) == ([], [])


def test_a_persons_ranking_makes_every_pair_it_orders(project: Project, alice: User) -> None:
    task = make_group(project, ("a", "b", "c"), (None, None, None))
    give_task_feedback(task=task, by=alice, ranking=[[2], [0, 1]])
    build(task)
    assert [one for one in told() if one[0] == "choice"] == [("choice", "c", "a"), ("choice", "c", "b")]
    pair = PreferencePair.objects.filter(source="choice")[0]
    assert pair.feedback is not None
    assert (pair.feedback.author, pair.weight) == ("user:alice", 1.0)


def test_answers_of_two_members_are_a_pair_of_the_ensemble(project: Project, alice: User) -> None:
    """Whether a person or the world prefers one of them; two of one member are not."""
    task = make_group(project, ("a", "b", "c"), (None, 1.0, 0.0))
    Attempt.objects.filter(task=task, index=0).update(worker=make_worker(project, "other"))
    give_task_feedback(task=task, by=alice, preferred_attempt=0)
    build(task)
    assert sorted(told()) == [("attempts", "b", "c"), ("ensemble", "a", "b"), ("ensemble", "a", "c")]
    assert {one.feedback_id is None for one in PreferencePair.objects.filter(source="ensemble")} == {False}


def test_a_preference_stands_before_what_the_world_says(project: Project, alice: User) -> None:
    """Her word is rank one: rewards follow it, and so no pair contradicts it."""
    task = make_group(project, ("a", "b"), (0.0, 1.0))
    give_task_feedback(task=task, by=alice, preferred_attempt=0)
    build(task)
    assert told() == [("choice", "a", "b")]


def test_two_people_who_say_the_opposite_teach_nothing(project: Project, alice: User, bob: User) -> None:
    task = make_group(project, ("a", "b"), (None, None))
    give_task_feedback(task=task, by=alice, preferred_attempt=0)
    give_task_feedback(task=task, by=bob, preferred_attempt=1)
    build(task)
    assert told() == []


@pytest.mark.parametrize("is_lighter_last", [False, True])
def test_of_two_people_who_say_the_opposite_the_heavier_teaches_what_is_left(
    project: Project, alice: User, bob: User, is_lighter_last: bool
) -> None:
    Rater.objects.create(project=project, handle="user:bob", kind=Rater.Kind.PERSON, weight=0.6)
    task = make_group(project, ("a", "b"), (None, None))
    words = [(alice, 0), (bob, 1)]
    for by, attempt in words if is_lighter_last else reversed(words):
        give_task_feedback(task=task, by=by, preferred_attempt=attempt)
    build(task)
    assert told() == [("choice", "a", "b")]
    assert PreferencePair.objects.get().weight == pytest.approx(0.4)


def test_a_choice_stands_where_somebody_in_quarantine_made_the_same(project: Project, alice: User, bob: User) -> None:
    quarantine(project, bob)
    task = make_group(project, ("a", "b"), (None, None))
    give_task_feedback(task=task, by=alice, preferred_attempt=0)
    give_task_feedback(task=task, by=bob, preferred_attempt=0)
    build(task)
    assert told() == [("choice", "a", "b")]
    assert PreferencePair.objects.get().weight == 1.0


def test_what_the_world_says_stands_where_only_somebody_in_quarantine_chose(project: Project, bob: User) -> None:
    quarantine(project, bob)
    task = make_group(project, ("a", "b"), (1.0, 0.0))
    give_task_feedback(task=task, by=bob, preferred_attempt=0)
    build(task)
    assert told() == [("attempts", "a", "b")]


def test_an_edited_answer_replaces_the_answer_behind_the_same_steps(project: Project, alice: User) -> None:
    task = make_group(project, ("<step>look</step><answer>wrong</answer>",), (None,))
    attempt = task.attempts.get()
    Step.objects.filter(attempt=attempt, index=1).update(kind="answer", text="wrong")
    give_task_feedback(task=task, by=alice, edited_answer="right")
    build(task)
    pair, demonstration = PreferencePair.objects.get(), Demonstration.objects.get()
    assert (pair.source, pair.text, pair.kept_tokens) == ("edit", "<answer>right</answer>", 3)
    assert (demonstration.source, demonstration.text, demonstration.kept_tokens) == ("edit", pair.text, 3)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [line] = read_lines(write_batch(batch)[0])
    record = PairRecord.from_json(line)
    assert (record.prompt_token_ids, record.rejected[0].token_ids) == ([1, 2, 3, 10, 11, 12], [13, 14, 15])
    assert record.chosen == (AnswerRecord(token_ids=[], counts=[], text="<answer>right</answer>", prompt_token_ids=[]),)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="demonstrations")
    [line] = read_lines(write_batch(batch)[0])
    shown = DemonstrationRecord.from_json(line)
    assert (shown.prompt_token_ids, shown.answer) == ([1, 2, 3, 10, 11, 12], "<answer>right</answer>")


@pytest.mark.parametrize(
    ("text", "edited", "better"),
    [
        ("We compare both.\nAnswer: A", "B", "We compare both.\nAnswer: B"),
        ("<step>x</step><answer>an</answer>", "the", "<step>x</step><answer>the</answer>"),
        ("<answer></answer>", "17", "<answer>17</answer>"),
        ("**Final answer:** n", "m", "**Final answer:** m"),
    ],
    ids=["label", "tag", "nothing in the tag", "bold label"],
)
def test_an_edit_leaves_the_tag_or_label_of_the_answer_as_it_is(
    project: Project, alice: User, text: str, edited: str, better: str
) -> None:
    task = make_group(project, (text,), (None,))
    give_task_feedback(task=task, by=alice, edited_answer=edited)
    build(task)
    assert told() == [("edit", better, text)]
    assert shown() == [("edit", better)]


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        (["<step>", "look", "</", "step", ">", "<", "answer", ">", "wrong", "</", "answer", ">"], 5),
        (["<step>", "look", "</", "step", "><", "answer", ">", "wrong", "</", "answer", ">"], 4),
        (["1. look\n", "2. buy\n\nS", "o ", "wrong"], 1),
        (["1. look\n2. buy\n\nS", "o ", "wrong"], 0),
        ([b"<step>look</step>", b"\xe2\x86", b"\x92 ", b"wrong"], 1),
        ([b"<step>look", b"</step> \xe2\x86", b"\x92 ", b"wrong"], 1),
        ([b"<step>look", b"</step>\xe3\x80", b"\x80<", b"answer>wrong</answer>"], 0),
    ],
    ids=[
        "apart", "one token", "no tag", "the first token", "a character in two tokens", "and what is before it",
        "a token that begins inside a character",
    ],
)  # fmt: skip
def test_an_edit_behind_kept_tokens_spells_no_character_twice(
    project: Project, alice: User, pieces: list[Any], kept: int
) -> None:
    text = "".join(pieces) if isinstance(pieces[0], str) else b"".join(pieces).decode()
    task = make_task(project, make_worker(project), state=Task.State.LEARNING, group_size=1)
    attempt = make_attempt(task, tokens=len(pieces), text=text, outcome=None, score=None)
    attempt.steps.all().delete()
    sample = Sample(
        text=text, finish_reason="stop", served_by="m", token_ids=range(10, 10 + len(pieces)), token_texts=pieces,
        prompt_token_ids=[1, 2, 3], logprobs=[-0.5] * len(pieces),
    )  # fmt: skip
    draft = read_sample(sample, [])
    save_steps([attempt], [draft])
    give_task_feedback(task=task, by=alice, edited_answer=draft.answer.replace("wrong", "right"))
    build(task)
    for item in (PreferencePair.objects.get(), Demonstration.objects.get()):
        assert item.kept_tokens == kept
        before = pieces[:kept]
        read = b"".join(one.encode() if isinstance(one, str) else one for one in before).decode()
        assert read + item.text == text.replace("wrong", "right")
    assert read_whole(item.text, attempt, kept_tokens=kept) == text.replace("wrong", "right")
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [pair] = map(PairRecord.from_json, read_lines(write_batch(batch)[0]))
    assert pair.prompt_token_ids == [1, 2, 3, *range(10, 10 + kept)]
    assert pair.rejected[0].token_ids == [*range(10 + kept, 10 + len(pieces))]


def test_an_edit_keeps_no_tokens_where_nobody_knows_what_the_last_of_them_holds(project: Project, alice: User) -> None:
    task = make_group(project, ("<step>look</step><answer>wrong</answer>",), (None,))
    Step.objects.filter(attempt__task=task, index=1).update(kind="answer", text="wrong", token_overlap=None)
    give_task_feedback(task=task, by=alice, edited_answer="right")
    build(task)
    pair = PreferencePair.objects.get()
    assert (pair.kept_tokens, pair.text) == (0, "<step>look</step><answer>right</answer>")


def test_retracting_the_feedback_takes_its_unused_pairs_away(project: Project, alice: User) -> None:
    task = make_group(project, ("a", "b"), (None, None))
    said = give_task_feedback(task=task, by=alice, preferred_attempt=0, edited_answer="c")
    build(task)
    assert {one[0] for one in told()} == {"choice", "edit"}
    judging.retract(said, by=alice, reason="a mistake")
    assert (told(), shown()) == ([], [])


def test_what_a_batch_holds_stays_and_is_not_told_again(project: Project, alice: User) -> None:
    task = make_group(project, ("a", "b"), (None, None))
    said = give_task_feedback(task=task, by=alice, preferred_attempt=0)
    build(task)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    assert batch.kind == "pairs"
    judging.retract(said, by=alice, reason="a mistake")
    assert PreferencePair.objects.get().batch == batch
    with pytest.raises(ConflictError, match="it has no unused pairs"):
        services.close_open_batch(task.worker, by="user:alice", kind="pairs")


def test_pairs_are_written_with_the_tokens_that_were_sampled(project: Project) -> None:
    task = make_group(project, ("good", "bad"), (1.0, 0.0))
    build(task)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [line] = read_lines(write_batch(batch)[0])
    record = PairRecord.from_json(line)
    assert (record.group_id, record.source, record.prompt_token_ids) == (task.pk, "attempts", [1, 2, 3])
    assert record.chosen == record.rejected
    [answer] = record.chosen
    assert answer.token_ids == list(range(10, 16))
    assert answer.logprobs is None, "the trainer computes them"
    assert write_batch(batch) == write_batch(batch)


def test_an_attempt_of_several_sequences_is_shown_sequence_by_sequence(project: Project) -> None:
    task = make_group(project, ("good",), (1.0,))
    add_call(task.attempts.get(), [7, 8], [20, 21])
    build(task)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="demonstrations")
    first, second = map(DemonstrationRecord.from_json, read_lines(write_batch(batch)[0]))
    assert (first.prompt_token_ids, first.token_ids) == ([1, 2, 3], list(range(10, 16)))
    assert (second.prompt_token_ids, second.token_ids, second.counts) == ([7, 8], [20, 21], [True, True])
    assert first.group_id == second.group_id == task.pk


def test_an_edited_answer_stands_in_the_sequence_that_it_ended(project: Project, alice: User) -> None:
    task = make_group(project, ("<step>look</step><answer>wrong</answer>",), (None,))
    attempt = task.attempts.get()
    add_call(attempt, [7, 8], [20, 21])
    Step.objects.filter(attempt=attempt, index=1).update(kind="answer", text="wrong", token_start=7, token_end=8)
    give_task_feedback(task=task, by=alice, edited_answer="right")
    build(task)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [pair] = map(PairRecord.from_json, read_lines(write_batch(batch)[0]))
    assert (pair.prompt_token_ids, pair.rejected[0].token_ids) == ([7, 8, 20], [21])
    batch = services.close_open_batch(task.worker, by="user:alice", kind="demonstrations")
    [shown] = map(DemonstrationRecord.from_json, read_lines(write_batch(batch)[0]))
    assert (shown.prompt_token_ids, shown.answer) == ([7, 8, 20], "<answer>right</answer>")


def test_a_pair_is_all_sequences_of_both_attempts(project: Project) -> None:
    """Each behind its own prompt, the first behind the one that both answer."""
    task = make_group(project, ("good", "bad"), (1.0, 0.0))
    good, bad = task.attempts.order_by("index")
    add_call(good, [7, 8], [20, 21])
    add_call(bad, [1, 2, 3, *range(10, 16), 9], [22])
    build(task)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [record] = map(PairRecord.from_json, read_lines(write_batch(batch)[0]))
    assert (record.prompt_token_ids, record.is_of_one) == ([1, 2, 3], False)
    first, second = record.chosen
    assert (first.prompt_token_ids, first.token_ids) == ([], list(range(10, 16)))
    assert (second.prompt_token_ids, second.token_ids) == ([7, 8], [20, 21])
    [joined] = record.rejected
    assert joined.token_ids == [*range(10, 16), 9, 22], "a call that goes on from the one before is no new sequence"
    assert joined.counts == [True, True, False, True, True, True, False, True]
    assert find_several(batch) == [record.pair_id]


def test_an_edited_answer_in_an_earlier_sequence_replaces_all_behind_it(project: Project, alice: User) -> None:
    task = make_group(project, ("<step>look</step><answer>wrong</answer>",), (None,))
    attempt = task.attempts.get()
    add_call(attempt, [7, 8], [20, 21])
    Step.objects.filter(attempt=attempt, index=1).update(kind="answer", text="wrong")
    give_task_feedback(task=task, by=alice, edited_answer="right")
    build(task)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [pair] = map(PairRecord.from_json, read_lines(write_batch(batch)[0]))
    assert pair.prompt_token_ids == [1, 2, 3, 10, 11, 12]
    assert [(one.prompt_token_ids, one.token_ids) for one in pair.rejected] == [([], [13, 14, 15]), ([7, 8], [20, 21])]
    assert [one.text for one in pair.chosen] == ["<answer>right</answer>"]


@pytest.mark.parametrize(
    ("text", "last", "better"),
    [
        ("I look it up.\nIt is 5.", "It is 5.", "It is 6."),
        ("It is 5.", "It is 5.", "It is 6."),
        ("1. look\n2. add\nSo:\n1. tax\nAnswer: 5", "So:\n1. tax\nAnswer: 5", "So:\n1. tax\nAnswer: It is 6."),
    ],
    ids=["words before", "calls without words", "a list of its own"],
)
def test_an_edited_answer_of_several_calls_replaces_the_last_alone(
    project: Project, alice: User, text: str, last: str, better: str
) -> None:
    """Steps that are whole calls, as conversations and outside agents have them."""
    task = make_group(project, (text,), (None,))
    attempt = task.attempts.get()
    add_call(attempt, [7, 8], [20, 21])
    Step.objects.filter(attempt=attempt, index=0).update(kind="call", token_start=0, token_end=6)
    Step.objects.filter(attempt=attempt, index=1).update(kind="answer", text=last, token_start=6, token_end=8)
    give_task_feedback(task=task, by=alice, edited_answer="It is 6.")
    build(task)
    item = PreferencePair.objects.get()
    assert (item.text, read_whole(item.text, item.rejected, kept_tokens=6)) == (better, text[: -len(last)] + better)
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    [pair] = map(PairRecord.from_json, read_lines(write_batch(batch)[0]))
    assert (pair.prompt_token_ids, [one.token_ids for one in pair.rejected]) == ([7, 8], [[20, 21]])


def test_an_edit_of_several_calls_whose_last_answer_nobody_finds_is_refused_in_words(
    project: Project, alice: User
) -> None:
    task = make_group(project, ("wrong",), (None,))
    add_call(task.attempts.get(), [7, 8], [20, 21])
    give_task_feedback(task=task, by=alice, edited_answer="right")
    build(task)
    words = "is 2 calls: wanted its last answer as a step with its tokens"
    for kind in ("pairs", "demonstrations"):
        with pytest.raises(ConflictError, match=words):
            services.close_open_batch(task.worker, by="user:alice", kind=kind)


def test_what_was_kept_out_for_its_several_sequences_waits_again(project: Project) -> None:
    build(make_group(project, ("good", "bad", "worse"), (1.0, 0.0, 0.0)))
    one, other = PreferencePair.objects.order_by("id")
    reason = f"{one.chosen} is 2 sequences of tokens: wanted one"
    PreferencePair.objects.filter(pk=one.pk).update(unusable_reason=reason)
    PreferencePair.objects.filter(pk=other.pk).update(unusable_reason="the two attempts answered different prompts")
    import_module("apps.rollouts.migrations.0006_pairs_of_several_sequences").take_back(apps, None)
    waits = PreferencePair.objects.filter(unusable_reason="").values_list("pk", flat=True)
    assert list(waits) == [one.pk]


def test_attempts_that_answered_different_prompts_make_no_pair_and_say_so(project: Project) -> None:
    task = make_group(project, ("good", "bad", "worse"), (1.0, 0.0, 0.0))
    build(task)
    Exchange.objects.filter(attempt__index=1).update(prompt_token_ids=pack_int32([1, 9]))
    batch = services.close_open_batch(task.worker, by="user:alice", kind="pairs")
    one, other = PreferencePair.objects.order_by("id")
    assert (one.batch, one.unusable_reason) == (None, "the two attempts answered different prompts")
    assert (other.batch, other.unusable_reason) == (batch, "")


@pytest.mark.parametrize("kind", ["pairs", "demonstrations"])
def test_what_an_earlier_base_model_answered_makes_nothing_to_learn_in_tokens(project: Project, kind: str) -> None:
    task = make_group(project, ("good", "bad"), (1.0, 0.0))
    build(task)
    Worker.objects.update(base_since=timezone.now())
    with pytest.raises(
        ConflictError, match="1 are left out: its tokens are those of the base model that echo had until"
    ):
        services.close_open_batch(Worker.objects.get(), by="user:alice", kind=kind)


def test_where_no_pair_can_be_told_the_refusal_says_why(project: Project) -> None:
    task = make_group(project, ("good", "bad"), (1.0, 0.0))
    build(task)
    Exchange.objects.filter(attempt__index=1).update(prompt_token_ids=pack_int32([1, 9]))
    with pytest.raises(ConflictError, match="1 are left out: the two attempts answered different prompts"):
        services.close_open_batch(task.worker, by="user:alice", kind="pairs")


def test_training_now_by_preferences_uses_the_pairs_and_leads_back_to_the_person(project: Project, alice: User) -> None:
    task = make_group(project, ("a", "b"), (None, None))
    give_task_feedback(task=task, by=alice, preferred_attempt=0)
    build(task)
    run = flow.close_batch(worker=task.worker, by=alice, recipe={"algorithm": "dpo"})
    assert run.recipe["algorithm"] == "dpo"
    assert run.batch is not None
    assert run.batch.kind == Batch.Kind.PAIRS
    assert Batch.objects.get(state="open").rollout_count == 2, "what fills with attempts fills on"
    adapter = Adapter.objects.create(
        project=project,
        worker=task.worker,
        version=1,
        name="echo@v1-aaaa",
        run_id=run.pk,
        uri="file:///a",
        sha256="a",
        manifest={},
        line_version=1,
    )
    [link] = trace_lineage(adapter)
    assert (link.learnt, link.rollouts, link.tasks, list(link.authors)) == ("pairs", 0, 1, ["user:alice"])
    assert [(one.source, one.count) for one in link.items] == [("choice", 1)]
    assert [person.author for person in find_people(adapter)] == ["user:alice"]


def test_judged_attempts_are_what_kto_learns_from(project: Project, alice: User) -> None:
    task = make_group(project, ("a", "b"), (1.0, 0.0))
    build(task)
    run = flow.close_batch(worker=task.worker, by=alice, recipe={"algorithm": "kto"})
    assert run.batch is not None
    assert run.batch.kind == Batch.Kind.ROLLOUTS


def test_with_learning_off_there_is_nothing(project: Project, alice: User) -> None:
    Project.objects.filter(pk=project.pk).update(learning_enabled=False)
    task = make_group(project, ("a", "b"), (1.0, 0.0))
    give_task_feedback(task=task, by=alice, edited_answer="c", preferred_attempt=0)
    build(task)
    assert Feedback.objects.exists()
    assert (told(), shown()) == ([], [])
