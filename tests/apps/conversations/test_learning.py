"""From what a person says next to a rollout."""

from collections import Counter
from collections.abc import Callable

import pytest
from pytest_django import Settings

from apps.accounts.models import Project
from apps.base.errors import ConflictError
from apps.conversations.models import Turn
from apps.conversations.segmentation import cut_session
from apps.evals.measuring import measure
from apps.evals.models import Evaluation, Item
from apps.evals.panels import ItemSet, find_own
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.outbox.services import replay
from apps.pipeline import conversing
from apps.rollouts.models import Rollout
from apps.rollouts.selectors import make_records
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from apps.tasks.own_work import FIRST_TASKS, is_drawn
from apps.workers.models import Worker
from apps.worlds.registry import get_world
from tests.apps.conversations.talk import INTERNAL, SYSTEM, Talk, tool, user
from tests.apps.gateway.running import make_provider
from tests.factories import make_task
from tests.fakes import FakeModelServer
from tests.links import run_link

Read = Callable[[Talk], list[Turn]]
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 7}'}}


def test_thanks_make_a_task_that_learns(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), INTERNAL, answer="It is four.")
    talk.ask(user("Thanks!"), answer="You are welcome.")
    turns = read(talk)
    assert [(turn.state, turn.closed_by) for turn in turns] == [("settled", "next"), ("open", "")]
    task = turns[0].task
    assert task is not None
    assert (task.state, task.prompt, task.answer, task.group_size) == (
        "learning",
        "What is two and two?",
        "It is four.",
        1,
    )
    feedback = Feedback.objects.get(task=task)
    assert (feedback.source, feedback.author, feedback.score, feedback.trust) == (
        "implicit",
        "signal:thanked",
        1.0,
        0.6,
    )
    conversing.learn_from_turn([turns[0].pk])
    assert Segment.objects.filter(kind="learn", subject_id=task.pk).exists()
    extract_hints([task.pk])
    build_rollouts([task.pk], by="test")
    rollout = Rollout.objects.get(task=task)
    assert (rollout.is_usable, rollout.reward, rollout.reward_source, rollout.weight) == (True, 1.0, "implicit", 0.6)
    (record,) = make_records([rollout])
    exchange = task.attempts.get().exchange
    assert exchange is not None
    assert list(record.token_ids) == exchange.unpack_token_ids()
    assert list(record.prompt_token_ids) == exchange.unpack_prompt_token_ids()


def test_an_answer_of_an_ensemble_that_was_not_given_is_no_model_that_speaks(talk: Talk, read: Read) -> None:
    """Its caller's next words may be what another member answered, and are theirs all the same."""
    beside = talk.ask(user("What is two and two?"), answer="It is four.")
    beside.pk, beside.choice, beside.text, beside.worker_name = None, 1, "Thanks!", "second"
    beside.save(force_insert=True)
    talk.ask(user("Thanks!"), answer="You are welcome.")
    turn = read(talk)[0]
    assert turn.task is not None, turn.reason
    assert turn.task.answer == "It is four."
    assert Feedback.objects.get(task=turn.task).author == "signal:thanked"


def test_what_a_conversation_holds_out_is_asked_as_it_was_said(helper: Worker, read: Read) -> None:
    """A share of them holds itself out, whatever the project reviews: who talks judges."""
    Project.objects.filter(pk=helper.project_id).update(held_out_percent=50, review_policy={"rate": 0})
    worker = Worker.objects.select_related("project").get()
    for number in range(FIRST_TASKS):
        make_task(worker.project, worker, prompt=f"Question {number}", environment="chat")
    sides: dict[bool, list[int]] = {True: [], False: []}
    for key in range(10_000, 11_000):
        sides[is_drawn(worker.project, f"session {key}")].append(key)
    aside = sides[True][:4]
    for number, key in enumerate([*aside, *sides[False][:4]]):
        talk = Talk(worker.project, f"c-{number}", pk=key)
        for place in range(2):
            asked = f"Question {number}: what is {number} times {place}? Tell a{number}@lobsters.ch."
            talk.ask(user(asked), answer=f"It is {place * number}.")
            talk.ask(user("Thanks!"), answer="You are welcome.")
        talk.close()
        read(talk)
    items = list(Item.objects.all())
    sessions = Counter(Task.objects.get(pk=item.source.split()[1]).metadata["session"] for item in items)
    assert sessions == dict.fromkeys(aside, 2), "all of a conversation or none"
    for item in items:
        assert item.split == "held_out"
        assert [one["role"] for one in item.messages[:2]] == ["system", "user"]
        assert item.messages[-1] == {"role": "user", "content": item.prompt}
        assert "[EMAIL]" in item.prompt
    worker.project.refresh_from_db()
    held = find_own(worker, is_checked=False)["chat"]
    assert len(held) == len(items)
    later = next(one for one in held if len(one.messages) > 3)
    assert later.told.startswith("user: Question")
    assert "assistant: It is 0." in later.told
    assert later.told.endswith(f"user: {later.prompt}")
    with FakeModelServer() as server:
        worker.provider = make_provider(worker.project, f"{server.url}/v1", default_model="desk")
        worker.base_model = "desk"
        worker.save()
        item_set = ItemSet("own", get_world("chat"), held)
        measured = measure(worker, None, item_set, Evaluation.Purpose.REPORT)
    assert {one.answer for one in measured.tries.values()} == {"reply 0"}
    asked_with = [one.body["messages"] for one in server.requests]
    assert sorted(asked_with, key=str) == sorted((list(one.messages) for one in held), key=str)
    worker.kind = Worker.Kind.OPENCLAW
    told = find_own(worker, is_checked=False).get("chat", ())
    assert len(told) < len(held), "its agent is given tasks, which have no past"


def test_a_correction_says_no_and_teaches_in_the_persons_words(talk: Talk, read: Read) -> None:
    talk.ask(user("How much for three lamps?"), answer="30 EUR")
    talk.ask(user("No, that's wrong. From three pieces on there is a rebate of 10 %."), answer="27 EUR")
    talk.close()
    first, second = read(talk)
    assert first.task is not None
    feedback = Feedback.objects.get(task=first.task)
    assert (feedback.score, feedback.author) == (0.0, "signal:corrected")
    assert feedback.hint_text == feedback.text == "No, that's wrong. From three pieces on there is a rebate of 10 %."
    assert (second.task, second.closed_by, second.reason) == (None, "done", "nobody said anything after it")
    extract_hints([first.task.pk])
    build_rollouts([first.task.pk], by="test")
    (record,) = make_records([Rollout.objects.get(task=first.task)])
    assert record.hinted_messages is not None
    assert "rebate of 10 %" in str(record.hinted_messages)


def test_several_calls_become_one_sequence_of_a_step_each(talk: Talk, read: Read) -> None:
    first = talk.ask(user("Where is order 7?"), calls=[CALL])
    second = talk.ask(tool("c1", "in Berlin"), answer="It is in Berlin.")
    talk.ask(user("Great, thanks"), answer="Bye.")
    turn = read(talk)[0]
    assert turn.task is not None
    attempt = turn.task.attempts.get()
    steps = list(attempt.steps.all())
    assert [(step.kind, step.tool_name, step.tool_result) for step in steps] == [
        ("call", "look_up", "in Berlin"),
        ("answer", "", ""),
    ]
    build_rollouts([turn.task.pk], by="test")
    (record,) = make_records([Rollout.objects.get(task=turn.task)])
    whole = [*record.prompt_token_ids, *record.token_ids]
    assert whole == [*second.unpack_prompt_token_ids(), *second.unpack_token_ids()]
    assert list(record.prompt_token_ids) == first.unpack_prompt_token_ids()
    own = [token for token, mine in zip(record.token_ids, record.sampled, strict=True) if mine]
    assert own == [*first.unpack_token_ids(), *second.unpack_token_ids()]
    assert [list(record.token_ids[step.start : step.end]) for step in record.steps] == [
        first.unpack_token_ids(),
        second.unpack_token_ids(),
    ]


def test_calls_that_were_shown_anew_are_learnt_each_by_itself(talk: Talk, read: Read) -> None:
    first = talk.ask(user("Where is order 7?"), calls=[CALL])
    talk._prompt = [9_999, *talk._prompt[1:]]
    second = talk.ask(tool("c1", "in Berlin"), calls=[CALL | {"id": "c2"}])
    last = talk.ask(tool("c2", "at the airport"), answer="It is in Berlin, at the airport.")
    talk.ask(user("Thanks"), answer="Bye.")
    turn = read(talk)[0]
    assert turn.task is not None
    build_rollouts([turn.task.pk], by="test")
    rollout = Rollout.objects.get(task=turn.task)
    one, other = make_records([rollout])
    assert list(one.prompt_token_ids) == first.unpack_prompt_token_ids()
    assert list(one.token_ids) == first.unpack_token_ids()
    assert list(other.prompt_token_ids) == second.unpack_prompt_token_ids()
    own = [token for token, mine in zip(other.token_ids, other.sampled, strict=True) if mine]
    assert own == [*second.unpack_token_ids(), *last.unpack_token_ids()]
    assert (one.reward, one.weight) == (other.reward, other.weight) == (1.0, 0.6)
    assert other.group_id == turn.task.pk != one.group_id
    spans = [list(record.token_ids[step.start : step.end]) for record in (one, other) for step in record.steps]
    assert spans == [call.unpack_token_ids() for call in (first, second, last)]
    assert [message["role"] for message in other.messages][-1] == "tool"


def test_openclaw_moves_a_message_of_its_own_and_every_call_is_learnt(talk: Talk, read: Read) -> None:
    asked, call = talk._tokens(user("Where is order 7?")), {"role": "assistant", "content": "", "tool_calls": [CALL]}
    context, told = talk._tokens(INTERNAL), talk._tokens(tool("c1", "in Berlin"))
    talk.store([SYSTEM, user("Where is order 7?"), INTERNAL], [*asked, *context], [7, 8], "", [CALL])
    moved = [SYSTEM, user("Where is order 7?"), call, tool("c1", "in Berlin"), INTERNAL]
    talk.store(moved, [*asked, 7, 8, *told, *context], [9], "It is in Berlin.")
    thanks = [*moved[:-1], {"role": "assistant", "content": "It is in Berlin."}, user("Great, thanks"), INTERNAL]
    talk.store(thanks, [*asked, 7, 8, *told, 9, *context], [10], "Bye.")
    turn = read(talk)[0]
    assert turn.task is not None
    attempt = turn.task.attempts.get()
    assert [(step.kind, step.tool_result) for step in attempt.steps.all()] == [("call", "in Berlin"), ("answer", "")]
    build_rollouts([turn.task.pk], by="test")
    records = list(make_records([Rollout.objects.get(task=turn.task)]))
    assert [list(record.token_ids) for record in records] == [[7, 8], [9]]


def test_open_webui_shows_its_model_documents_around_what_a_person_says(talk: Talk, read: Read) -> None:
    around = (
        "### Task:\nRespond to the user query using the provided context.\n\n<context>\n"
        '<source id="1">A lamp costs 30 EUR.</source>\n</context>\n\n'
    )
    asked = "What does a lamp cost?"
    for words, answer in ((asked, "40 EUR."), ("No, that's wrong: 30 EUR.", "You are right.")):
        talk.ask(user(around + words), answer=answer)
        talk.messages[-2] = user(words)  # once it is answered, it repeats the words alone
    turn, following = read(talk)
    assert following.parent == turn
    assert turn.task is not None
    assert turn.task.prompt == asked
    assert Feedback.objects.get(task=turn.task).author == "signal:corrected"


def test_what_rules_cannot_tell_is_kept_as_that(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    talk.ask(user("What about Berlin?"), answer="A city.")
    turn = read(talk)[0]
    assert (turn.task, turn.reason) == (None, "no rule knows these words")
    signal = turn.signals.get()
    assert (signal.kind, signal.score) == ("", None)
    assert not Task.objects.filter(project=talk.session.project).exists()


def test_a_failed_tool_is_said_of_its_step_beside_a_persons_word_and_alone_teaches_nothing(
    talk: Talk, read: Read
) -> None:
    for place in ("7", "8"):
        talk.ask(user(f"Where is order {place}?"), calls=[CALL | {"id": f"c{place}"}])
        talk.ask(tool(f"c{place}", '{"error": "no such order"}'), answer="There is none.")
        talk.ask(user("Thanks!"), answer="Bye.") if place == "7" else talk.close()
    turn, _, alone = read(talk)
    assert (alone.task, alone.reason) == (None, "only what a program may have said: it needs a person's word beside it")
    assert turn.task is not None
    said = Feedback.objects.get(task=turn.task, author="signal:tool_failed").steps.get()
    assert (said.step.index if said.step else None, said.score) == (0, 0.0)


def test_an_answer_that_came_is_no_failure_where_its_tokens_are_not_all_known(talk: Talk, read: Read) -> None:
    why = "it was shown more than text (image_url), and text alone is trained on"
    told = talk.ask(user("What is two and two?"), answer="It is four.")
    Exchange.objects.filter(pk=told.pk).update(logprobs=b"", error=why)
    talk.ask(user("Thanks!"), answer="You are welcome.")
    task = read(talk)[0].task
    assert task is not None
    attempt = task.attempts.get()
    assert (attempt.state, attempt.answer, attempt.error) == ("answered", "It is four.", "")
    build_rollouts([task.pk], by="test")
    rollout = Rollout.objects.get(task=task)
    assert (rollout.is_usable, rollout.unusable_reason) == (False, why)


def test_the_very_same_request_sent_again_is_noted_and_teaches_nothing_alone(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), answer="It is five.")
    talk.messages.pop()
    talk._prompt = []
    talk.ask(answer="It is four.")
    first, second = read(talk)
    assert (second.began, second.parent) == ("again", first)
    assert (first.signals.get().kind, first.task) == ("asked_again", None)
    assert not Feedback.objects.exists()


def test_a_request_tried_again_after_a_failure_is_the_same_turn(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), status=502, error="upstream went away")
    talk.ask(answer="It is four.")
    talk.ask(user("Perfect."), answer="Bye.")
    turns = read(talk)
    assert len(turns) == 2
    assert Feedback.objects.get(task=turns[0].task).score == 1.0


def test_side_exchanges_make_no_turn_and_another_agents_calls_one_of_their_own(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    talk.store([{"role": "user", "content": "Summarise: …"}], [1], [2], "A sum.", turn="side")
    talk.store([{"role": "system", "content": "Title?"}, user("What is two and two?")], [1], [2], "Sums")
    talk.ask(user("Thanks"), answer="Bye.")
    main, title, thanks = read(talk)
    assert (title.parent, title.beside, title.task) == (None, main, None)
    assert thanks.parent == main
    assert main.task is not None
    assert main.task.answer == "It is four."


def test_cutting_again_changes_nothing(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    talk.ask(user("Thanks"), answer="Bye.")
    before = [(turn.pk, turn.state, turn.task_id) for turn in read(talk)]
    assert [(turn.pk, turn.state, turn.task_id) for turn in read(talk)] == before
    assert Task.objects.count() == 1


@pytest.mark.parametrize("policy", [{}, {"learn": False}])
def test_only_projects_that_want_it_learn_from_sessions(
    talk: Talk, project: Project, policy: dict[str, object]
) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    assert conversing.converse() == 1
    assert Segment.objects.filter(kind="cut", subject_id=talk.session.pk).exists()
    Project.objects.filter(pk=project.pk).update(session_policy=policy)
    assert conversing.converse() == 0


def test_a_session_that_cannot_be_cut_is_left_alone_until_somebody_replays_it(talk: Talk, helper: Worker) -> None:
    def refuse(session_id: int) -> None:
        raise ConflictError(f"session {session_id} cannot be cut")

    talk.ask(user("What is two and two?"), answer="It is four.")
    other = Talk(helper.project, "s-2")
    other.ask(user("What is two and two?"), answer="It is four.")
    assert conversing.converse() == 2
    dead = Segment.objects.get(kind="cut", subject_id=talk.session.pk)
    assert not run_link(refuse, dead.pk, 0)
    assert [conversing.converse() for _ in range(3)] == [1, 1, 1], "the other one waits"
    assert [one.state for one in Segment.objects.filter(kind="cut", subject_id=talk.session.pk)] == ["dead"]
    replay(dead, by="alice")
    assert run_link(lambda pk: cut_session(pk, by="test"), dead.pk, 0)
    assert conversing.converse() == 1
    talk.ask(user("Thanks"), answer="Bye.")
    assert conversing.converse() == 2, "it is cut by itself again"
    assert Segment.objects.filter(kind="cut", subject_id=talk.session.pk, state="open").count() == 1


def test_a_session_that_was_cut_is_due_again_when_it_goes_on_or_ends(talk: Talk, read: Read) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    read(talk)
    assert conversing.converse() == 0
    talk.close()
    assert conversing.converse() == 1
    read(talk)
    assert conversing.converse() == 0


@pytest.mark.parametrize(
    ("reaction", "author", "of"),
    [
        ("Hm. The brevity of it.", "signal:judged", {}),
        ("No, that is wrong. Brevity!", "signal:corrected", {"of": "hint"}),
    ],
)
def test_what_a_judge_says_of_a_turn_is_kept_with_its_name(
    talk: Talk, read: Read, settings: Settings, reaction: str, author: str, of: dict[str, str]
) -> None:
    """All of it, or of what a rule said its hint."""
    said = '{"verdict": "bad", "hint": "Mind brevity."}'
    project = talk.session.project
    project.session_policy |= {"judge": True}
    project.save()
    with FakeModelServer(models=["judge"], is_plain=True, reply=lambda prompt, index: said) as server:
        changes = {"LLM_MODEL": "judge", "INFERENCE_BACKEND": "openai", "INFERENCE_BASE_URL": server.url}
        settings.TENTALIS = settings.TENTALIS | changes
        talk.ask(user("Name a colour."), answer="It is red, and long ago it was not.")
        talk.ask(user(reaction), answer="Red.")
        read(talk)
    feedback = Feedback.objects.get()
    assert (feedback.author, feedback.hint_text) == (author, "Mind brevity.")
    assert feedback.judge == {"provider": None, "model": "judge", **of}
