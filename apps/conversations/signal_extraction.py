"""Extract signals from the state after a closed turn: by rules, then a model's votes; or none, which is kept too."""

from apps.base.errors import TentalisError
from apps.conversations.models import Turn, TurnSignal
from apps.conversations.policy import read_policy, redactor_for
from apps.conversations.reading import ReadTurn, read_turn
from apps.conversations.redaction import Redactor
from apps.inference.errors import ProviderBusyError
from apps.inference.judges import Voter
from apps.judges.models import tell_judge
from apps.judges.selectors import find_training_voter
from apps.outbox.services import final_write
from tentalis.core.conversations.asking import Heard, Vote, build_question, choose_hint, count_votes, parse_vote
from tentalis.core.conversations.signals import Abstained, Signal, find_tool_errors, read_reaction
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.hints import MAX_HINT_CHARS
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.session_policy import SessionPolicy
from tentalis.outbound.scopes import ScopedThreadPool

MAX_TOKENS = 512
TEMPERATURE = 0.7


def hear_turn(turn_id: int) -> None:
    """Keep what a closed turn's next state shows, once.

    Raises:
        ProviderBusyError: nobody could be asked for now; the rules had no word.
    """
    turn = Turn.objects.select_related("project", "session").get(pk=turn_id)
    if turn.state != Turn.State.CLOSED or turn.signals.exists():
        return
    policy = read_policy(turn.project)
    redactor = redactor_for(policy, turn.session)
    signals = _listen(read_turn(turn), policy, find_training_voter(turn.project) if policy.judge else None, redactor)
    with final_write():
        TurnSignal.objects.bulk_create(signals)


def _listen(
    read: ReadTurn, policy: SessionPolicy, voter: Voter | Unscored | None, redactor: Redactor
) -> list[TurnSignal]:
    """One signal of the whole, or why there is none; one a step whose tool failed. Models are asked in masked words."""
    steps = find_tool_errors([call.results for call in read.calls])
    signals = [_store(read.turn, one, TurnSignal.Source.RULE) for one in steps]
    if not read.calls:
        return [*signals, _store(read.turn, Abstained("the agent gave no answer", may_ask=False))]
    if policy.people == "nobody" or (policy.people == "named" and not read.turn.session.is_named):
        words = "by the project's policy nobody speaks here who could judge it"
        return [*signals, _store(read.turn, Abstained(words, may_ask=False))]
    if read.is_told_by_model:
        words = "what was said next is what a model had answered"
        return [*signals, _store(read.turn, Abstained(words, may_ask=False))]
    found = read_reaction(asked=read.asked, reaction=read.reaction, began=read.began_next)
    wants_hint = isinstance(found, Signal) and found.score < 0.5 and bool(read.reaction.strip())
    heard = Heard(found, [])
    votes: list[Vote] = []
    is_asked = isinstance(found, Abstained) and found.may_ask
    if isinstance(voter, Unscored):
        heard = Heard(Abstained(voter.reason, may_ask=False), []) if is_asked else heard
    elif voter and (wants_hint or is_asked):
        votes = _ask(read, voter, policy.votes, redactor)
        heard = count_votes(votes)
        if isinstance(found, Signal):
            heard = Heard(found, [vote.hint for vote in votes if vote.verdict == "bad" and vote.hint])
    whole = _store(
        read.turn,
        heard.found,
        TurnSignal.Source.RULE if heard.found is found else TurnSignal.Source.JUDGE,
        hint=redactor.mask(choose_hint(heard.hints, statement=read.reaction)).text,
    )
    whole.answer = redactor.mask(whole.answer).text
    if votes and isinstance(voter, Voter):
        judge = tell_judge(voter.provider_id, voter.model)
        whole.details = {"votes": [vote.verdict or vote.fault for vote in votes], "judge": judge}
    return [*signals, whole]


def _ask(read: ReadTurn, voter: Voter, count: int, redactor: Redactor) -> list[Vote]:
    """So many votes. Raises ProviderBusyError where it was too busy for every one of them."""
    asked, answer, reaction = (redactor.mask(text).text for text in (read.asked, read.answer, read.reaction))
    question = build_question(asked=asked, answer=answer, reaction=reaction)
    busy: list[ProviderBusyError] = []

    def cast(seed: int) -> Vote:
        try:
            answers = voter.client.chat(
                question, model=voter.model, max_tokens=MAX_TOKENS, temperature=TEMPERATURE, seed=seed
            )
        except ProviderBusyError as error:
            busy.append(error)
            return Vote(None, fault="busy")
        except TentalisError as error:
            return Vote(None, fault=f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS])
        return parse_vote(answers[0].text)

    with ScopedThreadPool(count) as pool:
        votes = list(pool.map(cast, range(count)))
    if len(busy) == count:
        raise busy[0]
    return votes


def _store(
    turn: Turn, found: Signal | Abstained, source: TurnSignal.Source = TurnSignal.Source.RULE, hint: str = ""
) -> TurnSignal:
    if isinstance(found, Abstained):
        return TurnSignal(turn=turn, source=source, reason=found.reason[:MAX_REASON_CHARS])
    return TurnSignal(
        turn=turn,
        kind=found.kind.value,
        source=source,
        score=found.score,
        trust=found.trust,
        step=found.step,
        reason=found.reason[:MAX_REASON_CHARS],
        answer=found.answer,
        hint=hint[:MAX_HINT_CHARS],
    )
