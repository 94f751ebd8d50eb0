"""Conversations as a gateway stores them: one exchange a request, token for token."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import Project
from apps.inference.models import Exchange, Session
from tentalis.core.packing import pack_bools, pack_float32, pack_int32

SYSTEM = {"role": "system", "content": "You are a helpful agent."}
INTERNAL = {
    "role": "user",
    "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnow\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def tool(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


class Talk:
    """A session that grows by requests and answers.

    Args:
        exact: the server tells tokens: a word is a token, and a message's tokens are its words'.
        pace_s: between one request and the next, as a person's would be.
    """

    def __init__(
        self,
        project: Project,
        key: str = "s-1",
        *,
        worker: str = "helper",
        exact: bool = True,
        pace_s: float = 30.0,
        **values: Any,
    ):
        self.session = Session.objects.create(
            project=project, key=key, worker_name=worker, agent="agent:claw", **values
        )
        self.messages: list[dict[str, Any]] = [SYSTEM]
        self.exact = exact
        self.pace_s = pace_s
        self._now = timezone.now()
        self._ids: dict[str, int] = {}
        self._prompt: list[int] = []

    def ask(self, *new: dict[str, Any], answer: str = "", calls: Sequence[Any] = (), **values: Any) -> Exchange:
        """One request with new messages, and its answer, which the next request repeats."""
        self.messages += new
        asked = [*self.messages, *values.pop("beside", [])]
        told = [token for message in (asked if not self._prompt else new) for token in self._tokens(message)]
        prompt = [*self._prompt, *told]
        said = self._tokens({"role": "assistant", "content": answer, "calls": [str(call) for call in calls]})
        exchange = self.store(asked, prompt if self.exact else [], said if self.exact else [], answer, calls, **values)
        if exchange.status < 400 and exchange.turn == "main":
            self._prompt = [*prompt, *said]
            reply: dict[str, Any] = {"role": "assistant", "content": answer}
            self.messages.append(reply | ({"tool_calls": list(calls)} if calls else {}))
        return exchange

    def store(
        self,
        messages: Sequence[Any],
        prompt: Sequence[int],
        said: Sequence[int],
        answer: str,
        calls: Sequence[Any] = (),
        **values: Any,
    ) -> Exchange:
        exchange = Exchange.objects.create(
            project=self.session.project,
            session=self.session,
            worker_name=self.session.worker_name,
            agent=self.session.agent,
            model="base",
            messages=list(messages),
            text=answer,
            tool_calls=list(calls),
            prompt_token_ids=pack_int32(prompt),
            token_ids=pack_int32(said),
            logprobs=pack_float32([-0.5] * len(said)),
            sampled=pack_bools([True] * len(said)),
            prompt_tokens=len(prompt),
            completion_tokens=len(said),
            **values,
        )
        exchange.created_at = self._now
        exchange.save(update_fields=["created_at"])
        self._now += timedelta(seconds=self.pace_s)
        self.session.save()  # moves last_seen_at, as the gateway's writer does
        return exchange

    def close(self) -> None:
        """As `X-Session-Done` does."""
        self.session.closed_at = timezone.now()
        self.session.save()

    def _tokens(self, message: dict[str, Any]) -> list[int]:
        words = f"<{message['role']}> {message.get('content')} {' '.join(message.get('calls', ()))} <end>".split()
        return [self._ids.setdefault(word, len(self._ids) + 1) for word in words]
