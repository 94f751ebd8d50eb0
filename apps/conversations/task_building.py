"""Build a task with one attempt from a turn that something was said of; what was said becomes its feedback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import ConflictError, NotFoundError
from apps.conversations.models import Turn, TurnSignal
from apps.conversations.policy import read_policy, redactor_for
from apps.conversations.reading import AgentCall, ReadTurn, read_turn
from apps.conversations.redaction import Redactor
from apps.conversations.submitted import find_submitted, tell_submitted
from apps.feedback.judgement import JudgementFields, StepRating
from apps.feedback.submit import note_signal
from apps.inference.calls import find_exact, find_spans, find_unfit
from apps.inference.models import Exchange, Session
from apps.outbox.services import final_write
from apps.tasks.models import Attempt, FurtherExchange, Step, Task
from apps.tasks.own_work import choose_held_out, keep_held_out
from apps.tasks.selectors import find_submitter
from apps.workers.models import Worker
from apps.worlds.registry import DEFAULT, find_world, get_world
from tentalis.core.conversations.signals import MACHINES, SignalKind
from tentalis.core.field_limits import MAX_COMMENT_CHARS, MAX_PROMPT_CHARS, MAX_REASON_CHARS
from tentalis.core.hints import MAX_HINT_CHARS
from tentalis.core.session_policy import Redaction
from tentalis.core.steps import Span, parse_steps

CUT_OFF = "length"
STANDING_ROLES = frozenset({"system", "developer"})
ASKED_BESIDE = "it was asked beside any (`side`): wanted an agent's token, or the header X-Turn-Type: main"
ONLY_MACHINES = "only what a program may have said: it needs a person's word beside it"


@dataclass(frozen=True)
class Private:
    """What personal data and secrets an attempt's tokens hold, and what follows for its training.

    Attributes:
        unfit: why nothing of it may be trained on; "".
        hidden: stretches of its tokens to keep out of the loss.
        is_found: its conversation must not be written into training files.
    """

    unfit: str = ""
    hidden: Sequence[tuple[int, int]] = ()
    is_found: bool = False


def settle_turn(turn_id: int, *, by: str = "conversations") -> None:
    """Make a heard turn a task that learns, or say why it teaches nothing. One transaction, once."""
    turn = Turn.objects.select_related("project", "session").get(pk=turn_id)
    if turn.state != Turn.State.CLOSED:
        return
    read = read_turn(turn)
    signals = list(turn.signals.order_by("id"))
    redactor = redactor_for(read_policy(turn.project), turn.session)
    look_through(read, redactor)
    with final_write():
        locked = Turn.objects.select_for_update().get(pk=turn_id)
        if locked.state != Turn.State.CLOSED:
            return
        submitted = find_submitted(read)
        reason = find_reason(locked, read, signals, submitted)
        if not reason and submitted is not None:
            told = [say_of_whole(signal, read, redactor, submitted) for signal in signals]
            tell_submitted(submitted, read, signals, told, by=by)
        elif not reason:
            task = locked.task or make_task(turn, read, redactor, by=by)
            turn.task = task
            give_signals(task, read, signals, redactor, by=by)
            if task.state == Task.State.SCORING:
                move(task, Task.State.LEARNING, by=by)
        move(
            turn,
            Turn.State.SETTLED,
            by=by,
            payload={"task": submitted.pk if submitted is not None else turn.task_id, "reason": reason},
            reason=reason,
            task=turn.task,
        )


def look_through(read: ReadTurn, redactor: Redactor) -> None:
    """Have everything looked at that is masked or refused later: it takes seconds where texts are long, and rows are
    locked by then. What was found, the redactor remembers.
    """
    texts = [read.asked, read.reaction]
    for call in read.calls:
        texts += [call.exchange.text, "\n".join(call.results), _join_tools(call)]
        redactor.kinds_in([call.conversation.messages, _tools_of(call), call.exchange.tool_calls])
    redactor.kinds_in(texts)


def find_reason(turn: Turn, read: ReadTurn, signals: Sequence[TurnSignal], submitted: Task | None) -> str:
    """Why a turn teaches nothing; "" where it does."""
    if turn.task_id is not None:
        return ""
    whole = next((one for one in signals if one.step is None), None)
    if not any(one.score is not None for one in signals):
        return (whole.reason if whole is not None else "nothing was heard")[:MAX_REASON_CHARS]
    if all(one.score is None or one.kind in MACHINES for one in signals):
        return ONLY_MACHINES
    if submitted is not None:
        return "its task was cancelled" if submitted.state == Task.State.CANCELLED else ""
    return find_obstacle(read)


def find_obstacle(read: ReadTurn) -> str:
    """Why a turn cannot be a task, whatever is said of it; ""."""
    if not read.calls:
        return "the agent gave no answer"
    if not read.is_whole:
        return "a part of the conversation was deleted"
    if not read.asked.strip():
        return "nobody asked anything"
    names = {call.exchange.worker_name for call in read.calls}
    if len(names) > 1 or not Worker.objects.filter(project=read.turn.project_id, name__in=names).exists():
        return f"wanted one worker of the project, found {', '.join(sorted(names)) or 'none'}"[:MAX_REASON_CHARS]
    if any(call.exchange.task_id for call in read.calls):
        return "only a part of it was done for a task that was submitted"
    return ""


def make_task(turn: Turn, read: ReadTurn, redactor: Redactor, *, by: str) -> Task:
    """The turn as a task with one attempt, in the running transaction; it waits in scoring for what is said of it."""
    policy = read_policy(turn.project)
    last = read.calls[-1].exchange
    worker = Worker.objects.get(project=turn.project_id, name=last.worker_name)
    prompt = redactor.mask(read.asked).text[:MAX_PROMPT_CHARS]
    task = Task(
        project=turn.project,
        worker=worker,
        submitted_by=find_submitter(turn.project, turn.session.agent),
        environment=choose_environment(worker, prompt),
        prompt=prompt,
        metadata={"origin": "session", "session": turn.session_id, "turn": turn.pk},
        group_size=1,
    )
    chosen = choose_held_out(turn.project, [task], conversation=f"session {turn.session_id}")
    task.save(force_insert=True)
    if chosen:
        messages = read.calls[-1].conversation.messages  # its last call's: what its tools said is known by then
        keep_held_out(turn.project, chosen, messages=redactor.mask_texts(messages) if len(messages) > 1 else ())
    payload = {"environment": task.environment, "origin": "session", "session": turn.session_id, "turn": turn.pk}
    record(Kind.TASK_SUBMITTED, subject=task, by=by, payload=payload)
    attempt = make_attempt(task, read, redactor, policy.redaction)
    Task.objects.filter(pk=task.pk).update(answer=attempt.answer)
    move(task, Task.State.SCORING, by=by, payload={"attempts": [attempt.pk]})
    return task


def choose_environment(worker: Worker, prompt: str) -> str:
    """The world a person's words belong to: the worker's own where they are a task there, else a conversation."""
    try:
        get_world(worker.home).check_prompt(prompt)
    except ValueError:
        return DEFAULT
    return worker.home


def make_attempt(task: Task, read: ReadTurn, redactor: Redactor, redaction: Redaction) -> Attempt:
    """The turn's calls as one attempt, a step a call; those whose tokens nobody told are left out."""
    calls = _find_learnt(read.calls)
    private = find_private(calls, redactor, redaction)
    last = calls[-1].exchange
    unfit = private.unfit or find_unfit([call.exchange for call in read.calls], [call.exchange for call in calls])
    texts = [redactor.mask(call.exchange.text).text for call in calls]
    attempt = Attempt.objects.create(
        task=task,
        index=0,
        worker=task.worker,
        adapter=Adapter.objects.filter(project=task.project_id, name=last.adapter_name).first(),
        exchange=calls[0].exchange,
        state=Attempt.State.FAILED if last.has_failed else Attempt.State.ANSWERED,
        text="\n".join(filter(None, texts)),
        answer=parse_steps(texts[-1]).answer or texts[-1],
        error=last.error if last.has_failed else "",
        elapsed_s=sum(call.exchange.latency_ms or 0.0 for call in calls) / 1000,
        unfit=unfit[:MAX_REASON_CHARS],
        hidden=[list(span) for span in private.hidden],
        is_private=private.is_found,
    )
    FurtherExchange.objects.bulk_create(
        FurtherExchange(attempt=attempt, exchange=call.exchange, place=place)
        for place, call in enumerate(calls[1:], start=1)
    )
    spans = _find_spans(calls) if not unfit else [None] * len(calls)
    Step.objects.bulk_create(
        _make_step(attempt, place, call, spans[place], texts[place], redactor) for place, call in enumerate(calls)
    )
    return attempt


def _find_learnt(calls: Sequence[AgentCall]) -> Sequence[AgentCall]:
    exact = {call.pk for call in find_exact([call.exchange for call in calls])}
    return [call for call in calls if call.exchange.pk in exact]


def _find_spans(calls: Sequence[AgentCall]) -> list[Span]:
    return find_spans([call.exchange for call in calls], {call.exchange.pk: call.conversation for call in calls})


def find_private(calls: Sequence[AgentCall], redactor: Redactor, redaction: Redaction) -> Private:
    """What of an attempt's calls must not be trained on.

    Looked at is what was said in the conversation. The agent's standing prompt and its tools are its makers' words, the
    same for everybody: in them only names that are known are looked for.

    Prompt tokens cannot be changed without changing what the log-probs mean: so such calls are refused, or, where only
    the loss is to be masked, kept with the answers that hold something taken out of the loss.
    """
    said = [[one for one in call.conversation.messages if not _is_standing(one)] for call in calls]
    standing = [[one for one in call.conversation.messages if _is_standing(one)] for call in calls]
    asked = redactor.kinds_in(said) | redactor.names_in(standing) | redactor.names_in(_tools_of(call) for call in calls)
    answers = [redactor.kinds_in([call.exchange.text, call.exchange.tool_calls]) for call in calls]
    found = sorted(asked.union(*answers))
    if not found:
        return Private()
    if redaction == "mask":
        return Private(unfit=f"personal data or secrets in its tokens: {', '.join(found)}", is_found=True)
    spans = [span for span, kinds in zip(_find_spans(calls), answers, strict=True) if kinds]
    return Private(hidden=spans, is_found=True)


def _is_standing(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in STANDING_ROLES


def _tools_of(call: AgentCall) -> Any:
    return call.conversation.request.get("tools", ())


def _make_step(
    attempt: Attempt, place: int, call: AgentCall, span: tuple[int, int] | None, text: str, redactor: Redactor
) -> Step:
    tools = [_name_tool(tool) for tool in call.exchange.tool_calls]
    calls = redactor.mask(_join_tools(call)).text
    return Step(
        attempt=attempt,
        index=place,
        kind="call" if tools else "answer",
        text="\n".join(filter(None, [text, calls])),
        tool_name=tools[0][0][:100] if tools else "",
        tool_result=redactor.mask("\n".join(call.results)).text,
        token_start=span[0] if span else None,
        token_end=span[1] if span else None,
        token_overlap=0 if span else None,
    )


def _join_tools(call: AgentCall) -> str:
    return "; ".join(words for _, words in map(_name_tool, call.exchange.tool_calls))


def _name_tool(tool: Any) -> tuple[str, str]:
    """A tool call's name, and it with what it was given."""
    given = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    name = str(given.get("name", "?"))
    return name, f"{name} {given.get('arguments', given.get('input', ''))}".strip()


def give_signals(task: Task, read: ReadTurn, signals: Sequence[TurnSignal], redactor: Redactor, *, by: str) -> None:
    """Write what the signals say as feedback, each by an author of its own kind, so that each kind is calibrated."""
    attempt = task.attempts.get(index=0)
    learnt = [attempt.exchange_id, *attempt.further.values_list("exchange_id", flat=True)]
    for signal in signals:
        if signal.score is None or signal.trust is None or signal.feedback_id is not None:
            continue
        if signal.step is not None:
            exchange_id = read.calls[signal.step].exchange.pk
            if exchange_id not in learnt:
                continue
            index = learnt.index(exchange_id)
            step = StepRating(attempt_index=0, step_index=index, score=signal.score, comment=signal.reason)
            said: dict[str, Any] = {"steps": [step]}
        else:
            said = dict(say_of_whole(signal, read, redactor, task))
        judge = _tell_judge(signal)
        given = note_signal(task=task, kind=signal.kind, trust=signal.trust, by=by, judge=judge, **said)
        TurnSignal.objects.filter(pk=signal.pk).update(feedback=given)


def _tell_judge(signal: TurnSignal) -> dict[str, Any]:
    """The judge whose word the signal is, or only its hint; {} where none was asked."""
    judge = dict(signal.details.get("judge", {}))
    if signal.source == TurnSignal.Source.JUDGE or not judge:
        return judge
    return judge | {"of": "hint"} if signal.hint else {}


def say_of_whole(signal: TurnSignal, read: ReadTurn, redactor: Redactor, task: Task) -> JudgementFields:
    """What a signal says of a whole turn, with the person's words where they are a judgement of their own."""
    words = redactor.mask(read.reaction).text
    has_words = signal.score is not None and signal.score < 0.5 and signal.kind != SignalKind.ASKED_AGAIN
    hint = signal.hint or (words if has_words and len(words) <= MAX_HINT_CHARS else "")
    return {
        "score": signal.score,
        "text": words[:MAX_COMMENT_CHARS] if has_words else "",
        "edited_answer": signal.answer,
        "hint_text": "" if find_world(task.environment).grammar else hint,
    }


def find_turn(session: Session, exchange: Exchange | None = None) -> Turn:
    """The turn an exchange belongs to; without one the session's last that has an answer, of what was asked beside
    another only where nothing else was.

    Raises:
        NotFoundError: there is none.
    """
    turns = Turn.objects.select_related("project", "session", "task").filter(session=session)
    if exchange is not None:
        found = turns.filter(places__exchange=exchange).first()
    else:
        answered = turns.filter(places__is_part=True, places__exchange__status__lt=400).order_by("-number")
        found = answered.filter(Q(beside=None) | Q(next_turns__isnull=False)).first() or answered.first()
    if found is None:
        last = exchange or session.exchanges.order_by("-pk").first()
        why = "nobody has asked anything yet" if last is None or last.turn == "main" else ASKED_BESIDE
        raise NotFoundError(f"there is no turn of a conversation to speak of: {why}")
    return found


def open_task(turn: Turn, *, by: str) -> Task:
    """The turn's task, in the running transaction: the one it was work on, or one that is made of it now where an
    explicit word comes before any signal.

    Raises:
        ConflictError: it cannot be one, for the reason given.
    """
    read = read_turn(turn)
    redactor = redactor_for(read_policy(turn.project), turn.session)
    look_through(read, redactor)
    locked = Turn.objects.select_for_update(of=("self",)).select_related("task").get(pk=turn.pk)
    if locked.task is not None:
        return locked.task
    if (submitted := find_submitted(read)) is not None:
        return submitted
    if reason := find_obstacle(read):
        raise ConflictError(f"{turn} cannot be learnt from: {reason}")
    task = make_task(turn, read, redactor, by=by)
    Turn.objects.filter(pk=turn.pk).update(task=task)
    if turn.state == Turn.State.SETTLED or not read_policy(turn.project).learn:
        move(task, Task.State.LEARNING, by=by)
    return task
