"""Why a model server could not be asked, in words that say what to do."""

import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from apps.base.errors import TentalisError
from apps.base.sealing import SealedKeyError
from apps.inference.errors import (
    AddressNotAllowedError,
    ModelNotServedError,
    ProviderAnswerError,
    ProviderBusyError,
    ProviderRefusedError,
)
from apps.inference.provider_kinds import ProviderKind


class Fault(NamedTuple):
    """A stable word for programs, and a sentence for people that ends with the server's or system's own words."""

    code: str
    words: str


_STATUSES = {
    401: ("key", "the key is not accepted: is it whole, and of this vendor?"),
    402: ("payment", "the account has no credit left"),
    403: ("key", "the key is known and may not do this: does its account have access to the model?"),
    404: ("dialect", "there is no such route: is the address right, and is this the kind of server it is?"),
    405: ("dialect", "the route takes no such request: is the address right, and is this the kind of server it is?"),
    429: ("limited", "the server wants fewer requests, or the account's quota is used up"),
}


def explain(error: TentalisError, kind: ProviderKind) -> Fault:
    """What went wrong with one request."""
    own = str(error)
    match error:
        case AddressNotAllowedError():
            return Fault("address", own)
        case SealedKeyError():
            return Fault("sealed_key", own)
        case ModelNotServedError():
            return Fault("model", f"the server does not know this model; {own}")
        case ProviderAnswerError():
            return Fault("dialect", f"it answers, and not as {_name(kind)} does: is this the right address? {own}")
        case ProviderRefusedError() if error.http_status in _STATUSES:
            code, words = _STATUSES[error.http_status or 0]
            return Fault(code, f"{words} {own}")
        case ProviderRefusedError() if 300 <= (error.http_status or 0) < 400:
            return Fault(
                "redirect", f"the server sends elsewhere, and a key is not carried along: give that address. {own}"
            )
        case ProviderRefusedError():
            return Fault("refused", f"the server refuses the request. {own}")
        case ProviderBusyError() if error.http_status in _STATUSES:
            code, words = _STATUSES[error.http_status or 0]
            return Fault(code, f"{words} {own}")
        case ProviderBusyError() if error.http_status is not None:
            return Fault("broken", f"the server is there and is not well. {own}")
        case ProviderBusyError():
            return _explain_connection(error)
    return Fault(error.code, own)


def _explain_connection(error: TentalisError) -> Fault:
    own = str(error)
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return Fault("dns", f"the host's name is not known here: is it spelt right? {own}")
            case ssl.SSLCertVerificationError():
                return Fault("tls", f"the server's certificate does not hold: {cause.verify_message}. {own}")
            case ssl.SSLError():
                return Fault("tls", f"no TLS could be agreed on: does the server speak plain http there? {own}")
            case ConnectionRefusedError():
                return Fault(
                    "refused_connection", f"nothing listens there: is the server started, and the port right? {own}"
                )
            case TimeoutError():
                return Fault(
                    "timeout", f"the server does not answer in time: is it loaded, or behind a firewall? {own}"
                )
    if "in time" in own:
        return Fault("timeout", f"the server does not answer in time: is it loaded, or behind a firewall? {own}")
    return Fault("unreachable", f"the connection failed: does the server speak http there? {own}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors behind one, nearest first."""
    found: BaseException | None = error
    for _ in range(10):
        found = found.__cause__ or found.__context__ if found is not None else None
        if found is None:
            return
        yield found


def _name(kind: ProviderKind) -> str:
    return "Anthropic's API" if kind.dialect == "anthropic" else "OpenAI's API"
