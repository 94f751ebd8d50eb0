"""Proposals of running workers."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import ObjectField, StrictSerializer, TextField, WholeNumberField, WordField
from apps.supervision.actions import KINDS, MAX_ARGUMENTS_BYTES, MAX_CONTEXT_CHARS, MAX_TOOL_CHARS
from apps.supervision.models import OUTCOMES, Proposal
from apps.supervision.services import DECISIONS, MAX_REJECTION_CHARS, MAX_RISK_CHARS
from tentalis.core.field_limits import MAX_COMMENT_CHARS, MAX_JUDGEMENT_CHARS

MAX_SENT_CONTEXT_CHARS = 100_000
ACTION_HELP = (
    '{"kind": "tool", "tool": "refund", "arguments": {…}}, {"kind": "message", "text": "…"} or '
    '{"kind": "answer", "text": "…"}.'
)
OUTCOME_HELP = (
    "What the agent does now: `wait`; `go_on` with `permitted`; `stop`: leave this action out (`decision.reason`); "
    "`ask_again`: think again with `decision.hint`, then propose anew; `hand_over`: end the work and hand it in with "
    "`decision.answer`; `fail`: the task has failed."
)


class ProposalOut(RowOut[Proposal]):
    """An action an agent wants to take, and what was said to it."""

    worker = serializers.CharField(source="task.worker.name")
    attempt = serializers.IntegerField(source="attempt_id", allow_null=True, help_text="The work it is part of.")
    turn = serializers.IntegerField(allow_null=True, help_text="Of the platform's own agent: its turn, from 0.")
    call = serializers.IntegerField(allow_null=True, help_text="Which call of that turn, from 0.")
    action: Any = serializers.DictField(help_text=ACTION_HELP)
    outcome = serializers.ChoiceField(choices=sorted({*OUTCOMES.values(), "fail"}), help_text=OUTCOME_HELP)
    permitted: Any = serializers.DictField(allow_null=True, help_text="The action that may be done; null: none.")
    decision: Any = serializers.DictField(help_text="reason, action, hint, answer or outcome, by state.")
    decided_by = serializers.CharField(
        help_text="Handle; of a model `agent:llm:NAME`, of a program of another package `agent:program:NAME`. "
        "`policy`: no rule asked for anybody; `sweep`: the time was up."
    )

    class Meta:
        model = Proposal
        fields = (
            "id project task worker proposed_by turn call step_index action context risk reason state outcome "
            "permitted decision decided_by decided_at deadline_at on_timeout attempt created_at"
        )


class ActionIn(StrictSerializer):
    """A tool call, a message or the answer."""

    kind = WordField(choices=KINDS)
    tool = TextField(required=False, max_length=MAX_TOOL_CHARS, help_text="Of a tool call: the tool's name.")
    arguments = ObjectField(required=False, max_bytes=MAX_ARGUMENTS_BYTES, help_text="Of a tool call.")
    text = TextField(required=False, max_length=MAX_JUDGEMENT_CHARS, help_text="Of a message or answer.")


class ProposalIn(StrictSerializer):
    """What an agent wants to do."""

    task = WholeNumberField(min_value=1)
    action = ActionIn()
    step_index = WholeNumberField(
        required=False, allow_null=True, min_value=0, max_value=32_767, help_text="Which step of the work it will be."
    )
    context: Any = TextField(
        required=False,
        allow_blank=True,
        max_length=MAX_SENT_CONTEXT_CHARS,
        help_text=f"What led there; the last {MAX_CONTEXT_CHARS:,} characters are kept.",
    )
    risk = TextField(required=False, allow_blank=True, max_length=MAX_RISK_CHARS, help_text="What could go wrong.")


class DecisionIn(StrictSerializer):
    """What becomes of a proposal."""

    decision = WordField(choices=list(DECISIONS))
    reason = TextField(required=False, max_length=MAX_REJECTION_CHARS, help_text="Of reject.")
    action = ActionIn(required=False, help_text="Of edit: what may be done instead.")
    hint = TextField(required=False, max_length=MAX_COMMENT_CHARS, help_text="Of hint: what to think of.")
    answer = TextField(required=False, max_length=MAX_JUDGEMENT_CHARS, help_text="Of take_over: what you answered.")
