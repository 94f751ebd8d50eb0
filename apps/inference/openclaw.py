"""An OpenClaw as the one who does the work: its gateway speaks OpenAI's chat completions, one agent run a request."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from apps.base.errors import ConflictError, TentalisError
from apps.inference.errors import ProviderAnswerError, ProviderBusyError
from apps.inference.models import Provider
from apps.inference.provider_kinds import find_kind
from apps.inference.providers import open_key
from apps.inference.transport import Transport
from tentalis.outbound.scopes import RequestEndedError

DEFAULT_AGENT = "default"
_BROKE_OFF = (
    *(httpx.ReadTimeout, httpx.WriteTimeout, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError),
    RequestEndedError,
)


class RunLostError(TentalisError):
    """The agent began and its answer did not come: what it did by then is done, so nothing is sent again."""

    status = 504
    code = "agent_run_lost"
    is_final = True


class AgentReply(NamedTuple):
    """What an agent run ended with: what its user sees."""

    text: str
    finish_reason: str


@dataclasses.dataclass(frozen=True)
class OpenClawServer:
    """The HTTP side of an OpenClaw's gateway.

    Args:
        token: `gateway.auth.token` of its configuration: full operator access to it.
        timeout_s: how long a whole run may take; it is cancelled there when the time is up.
    """

    base_url: str
    token: str = dataclasses.field(default="", repr=False)
    timeout_s: float = 600.0
    allow_private: bool = False

    @classmethod
    def of(cls, provider: Provider, *, timeout_s: float) -> "OpenClawServer":
        """The server behind a row.

        Raises:
            ConflictError: it is switched off.
            SealedKeyError: its token cannot be opened.
        """
        if not provider.is_active:
            raise ConflictError(f"the agent server {provider.name!r} is switched off")
        return cls(provider.base_url, open_key(provider), provider.timeout_s or timeout_s, provider.allow_private)

    def run_agent(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        session_key: str,
        agent_id: str = "",
        model: str = "",
        **sampling: Any,
    ) -> AgentReply:
        """Have an agent answer, in a session of that key.

        Args:
            agent_id: "" for OpenClaw's default.
            model: `provider/model` in OpenClaw's terms that the agent thinks with; "": its own.
        Raises:
            ProviderBusyError: it cannot be reached, or takes nothing now; nothing was begun.
            ProviderRefusedError, AddressNotAllowedError: it refuses.
            RunLostError: it began, and broke off or took too long.
        """
        headers = {"x-openclaw-session-key": session_key} | ({"x-openclaw-model": model} if model else {})
        kind = dataclasses.replace(find_kind("custom"), extra_headers=headers)
        transport = Transport(
            kind, self.base_url, self.token, timeout_s=self.timeout_s, allow_private=self.allow_private
        )
        body = {"model": f"openclaw/{agent_id or DEFAULT_AGENT}", "messages": list(messages), **sampling}
        try:
            answer = transport.call_api("POST", "/chat/completions", body)
        except ProviderAnswerError:
            raise
        except ProviderBusyError as error:
            if isinstance(error.__cause__, _BROKE_OFF):
                raise RunLostError(f"{error}; the run was given {self.timeout_s:g} s") from error
            raise
        return self._read(answer)

    def _read(self, answer: Any) -> AgentReply:
        try:
            choice = answer["choices"][0]
            return AgentReply(choice["message"].get("content") or "", choice.get("finish_reason") or "")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ProviderAnswerError(f"{self.base_url}: wanted an answer, found {str(answer)[:200]}") from error
