"""Calls of the platform's own agents that wait: proposals of their attempt."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Min
from django.db.models.functions import Now

from apps.audit.kinds import Kind
from apps.audit.services import record_many, write_entry
from apps.supervision.actions import MAX_CONTEXT_CHARS
from apps.supervision.models import Proposal
from apps.supervision.policies import read_policy
from apps.supervision.services import ask_model
from apps.tasks.approvals import Approvals, CallPlace
from apps.tasks.models import Attempt, EpisodeTurn, Task
from apps.worlds.episodes import Instead
from tentalis.core.worlds import ToolCall


class ProposedCalls(Approvals):
    """What a worker's rules name is proposed, and waits until it is decided."""

    def ask(self, task: Task, turns: Sequence[tuple[EpisodeTurn, Sequence[ToolCall]]]) -> set[int]:
        if (policy := read_policy(task.worker)) is None:
            return set()
        made = [
            Proposal(
                project_id=task.project_id,
                task=task,
                attempt_id=turn.attempt_id,
                turn=turn.index,
                call=number,
                kind=Proposal.Kinds.TOOL,
                tool=call.name[:100],
                action={"kind": "tool", "tool": call.name, "arguments": _read_arguments(call)},
                context=f"{task.prompt}\n\n{turn.exchange.text if turn.exchange else ''}"[-MAX_CONTEXT_CHARS:],
                reason=reason,
                on_timeout=policy.on_timeout,
                deadline_at=Now() + timedelta(seconds=policy.deadline_s),
            )
            for turn, calls in turns
            for number, call in enumerate(calls)
            if not call.fault and (reason := policy.find_reason("tool", call.name))
        ]
        Proposal.objects.bulk_create(made)
        by = f"worker:{task.worker.name}"
        ask_model(made, policy)
        record_many([write_entry(Kind.PROPOSAL_MADE, subject=one, by=by, payload=one.describe()) for one in made])
        return {one.attempt_id for one in made if one.attempt_id is not None}

    def find_pending(self, attempts: Iterable[Attempt]) -> dict[int, datetime]:
        pending = Proposal.objects.filter(attempt__in=list(attempts), state=Proposal.State.PENDING)
        return dict(pending.order_by().values_list("attempt").annotate(Min("deadline_at")))

    def read(self, attempts: Iterable[Attempt]) -> Mapping[CallPlace, Instead]:
        rows = Proposal.objects.filter(attempt__in=list(attempts), turn__isnull=False, decided_at__isnull=False)
        said = {CallPlace(row.attempt_id or 0, row.turn or 0, row.call or 0): _say(row) for row in rows}
        return {place: instead for place, instead in said.items() if instead is not None}

    def note_steps(self, places: Mapping[CallPlace, int]) -> None:
        rows = list(Proposal.objects.filter(attempt__in={place.attempt_id for place in places}, turn__isnull=False))
        for row in rows:
            row.step_index = places.get(CallPlace(row.attempt_id or 0, row.turn or 0, row.call or 0))
        Proposal.objects.bulk_update(rows, ["step_index"])


def _read_arguments(call: ToolCall) -> Mapping[str, object]:
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, Mapping) else {"unreadable": call.arguments}


def _say(row: Proposal) -> Instead | None:
    """What the agent is told in place of the world's word, or before it; None where its call is made as it is."""
    match row.state:
        case Proposal.State.EDITED:
            arguments = json.dumps(row.decision["action"]["arguments"], ensure_ascii=False)
            words = f"[this call was changed before it was made: {row.tool} {arguments}]"
            return Instead(words=words, call=ToolCall(id="", name=row.tool, arguments=arguments))
        case Proposal.State.HINTED:
            return Instead(words=f"not done yet; think of this first: {row.decision['hint']}")
        case Proposal.State.REJECTED:
            return Instead(words=f"not allowed: {row.decision['reason']}")
        case Proposal.State.TAKEN_OVER:
            return Instead(words="somebody took over from here", answer=row.decision["answer"])
    return None if row.outcome == "go_on" else Instead(words="not allowed: nobody approved it in time")
