"""A request to an ensemble: every member is asked at once, and one of their answers is given."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apps.gateway.call import CallOutcome, ModelCall
from apps.gateway.dialects import BadRequestError
from apps.gateway.dialects.responses.items import UnknownItemsError
from apps.gateway.errors import RefusalError
from tentalis.core.answer_choice import GivenAnswer, choose_answer, draw_lot

logger = logging.getLogger(__name__)

NOT_WHOLE = frozenset({"length", "content_filter"})
"""How an answer ends that did not come to its own end."""


def require_one_answer(body: Mapping[str, Any]) -> None:
    """Raises RefusalError where more answers than one are asked for, of which none could be compared with another's."""
    prompt = body.get("prompt")
    prompts = len(prompt) if isinstance(prompt, list) and prompt and type(prompt[0]) is not int else 1
    for name, found in (("n", body.get("n")), ("best_of", body.get("best_of")), ("prompt", prompts)):
        if found not in (None, 1):
            what = "1 prompt" if name == "prompt" else "1"
            message = f"{name}: an ensemble gives one answer: wanted {what}, found {found!r:.40}"
            raise RefusalError(message, status=400, code="invalid_value", param=name)


def aim_members(calls: Sequence[ModelCall]) -> None:
    """Point each member at its server; what one cannot take is its own outcome.

    Raises:
        RefusalError: 403: the caller may not use one of them. UnknownItemsError: the request names items to be found.
    """
    for call in calls:
        try:
            call.aim()
        except UnknownItemsError:
            raise
        except BadRequestError as error:
            call.refuse(RefusalError(str(error), status=error.status, code=error.code, param=error.param))
        except RefusalError as error:
            if error.status == 403:
                raise
            call.refuse(error)


class Given(NamedTuple):
    """The answer that is given. Args: calls: its own first; by: what decided (`tentalis.core.answer_choice.Choice`)."""

    answer: bytes
    calls: list[ModelCall]
    by: str


async def ask_members(calls: Sequence[ModelCall], *, conversation: str, wait_s: float) -> Given:
    """The answer that the others agree with most (`tentalis.core.answer_choice`).

    Args:
        calls: pointed at servers, in the ensemble's order.
        conversation: key of the session, by which a lot is drawn where their answers leave it open.
        wait_s: after the first answer, for the others; who has given none by then is left.
    Raises:
        RefusalError: nobody answered; what each said instead.
    """
    asked = {asyncio.create_task(_ask(call)): call for call in calls if call.outcome is None}
    answers: dict[ModelCall, bytes] = {}
    waiting = set(asked)
    until: float | None = None
    try:
        while waiting and (until is None or until > time.monotonic()):
            left_s = None if until is None else until - time.monotonic()
            done, waiting = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            answers |= {asked[task]: out for task in done if (out := task.result()) is not None}
            if answers and until is None:
                until = time.monotonic() + wait_s
        for task in waiting:
            asked[task].end(CallOutcome(f"no answer yet {wait_s:g} s after the first member's", is_truncated=True))
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    given = [call for call in calls if call in answers]
    if not given:
        raise _join_refusals(calls)
    lots = [draw_lot(conversation, call.model) for call in given]
    choice = choose_answer([_read_answer(call) for call in given], lots=lots)
    chosen = given[choice.place]
    return Given(answers[chosen], [chosen, *(call for call in calls if call is not chosen)], choice.by)


async def _ask(call: ModelCall) -> bytes | None:
    """What a member answers; None where it does not, which is its outcome."""
    try:
        out = await call.ask()
    except RefusalError as error:
        call.refuse(error)
    except Exception:
        logger.exception("asking %s failed", call.model)
        call.refuse(RefusalError("internal error", status=500, code="internal"))
    else:
        call.end(CallOutcome())
        return out
    return None


def _read_answer(call: ModelCall) -> GivenAnswer:
    merger = call.fetch.plan.relay.merger if call.fetch is not None else None
    if merger is None or not merger.choices:
        return GivenAnswer("", is_whole=False)
    part = merger.choices[0]
    named = [one.get("function") or {} for one in part.tool_calls]
    calls = [(str(one.get("name", "")), str(one.get("arguments", ""))) for one in named]
    return GivenAnswer(part.text, calls, is_whole=part.finish_reason not in NOT_WHOLE)


def _join_refusals(calls: Sequence[ModelCall]) -> RefusalError:
    """What a caller is told where no member answered: the first one's refusal, and what each said."""
    refusals = [(call.model, call.refusal) for call in calls if call.refusal is not None]
    first, waits = refusals[0][1], [one.retry_after_s for _, one in refusals if one.retry_after_s is not None]
    said = {str(one) for _, one in refusals}
    return RefusalError(
        str(first) if len(said) == 1 else "; ".join(f"{name}: {one}" for name, one in refusals),
        status=first.status,
        code=first.code,
        param=first.param,
        retry_after_s=min(waits, default=None),
        is_recorded=any(one.is_recorded for _, one in refusals),
    )
