"""What the training box sends home: signed with a key of that attempt at that run alone, and of no use for another.

The key travels beside the spec and is never stored: the web side derives it again from its own secret.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, cast

from tentalis.core.canon import canonical_json
from tentalis.core.checked import MistypedError, require_typed
from tentalis.core.contracts import ContractError

LETTER_SCHEMA = "tentalis.letter/1"
RESULT: Final = "result"
HEARTBEAT: Final = "heartbeat"
KINDS = (RESULT, HEARTBEAT)
LETTER_BOX = "letters"
"""Name of the list in the broker, without the prefix that all names there have."""

Kind = Literal["result", "heartbeat"]


def draw_key(secret: str, *, run_id: int, attempt: int, spec_hash: str) -> str:
    """The key of one attempt at one run, 64 hex digits: from it nobody finds the secret or another attempt's.

    Source:
        HMAC-SHA256 as a key derivation with a label, as HKDF's expand step (RFC 5869) for one block.
    """
    label = canonical_json(["tentalis run key", run_id, attempt, spec_hash])
    return hmac.new(secret.encode(), label, hashlib.sha256).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A result or a sign of life.

    Args:
        number: grows with every letter of an attempt, so that an old one said again is known.
        body: `TrainResult.to_json()`, or the latest update's metrics.
        signature: HMAC-SHA256 over everything else, hex.
    """

    kind: str
    run_id: int
    attempt: int
    number: int
    body: Mapping[str, Any]
    signature: str = ""
    schema: str = LETTER_SCHEMA

    def to_json(self) -> dict[str, Any]:
        return self._signed() | {"signature": self.signature}

    @classmethod
    def write(cls, kind: Kind, body: Mapping[str, Any], *, key: str, run_id: int, attempt: int, number: int) -> Self:
        """A letter with its signature."""
        blank = cls(kind=kind, run_id=run_id, attempt=attempt, number=number, body=body)
        return cls(kind=kind, run_id=run_id, attempt=attempt, number=number, body=body, signature=blank._sign(key))

    @classmethod
    def from_json(cls, data: object) -> Self:
        """What came in, by its types; whether it is genuine is not known yet.

        Raises:
            ContractError: it is no letter.
        """
        names = {"kind", "run_id", "attempt", "number", "body", "signature", "schema"}
        if not isinstance(data, dict) or data.keys() != names:
            raise ContractError(f"a letter has the fields {', '.join(sorted(names))}")
        try:
            require_typed(cls, data)
        except MistypedError as error:
            raise ContractError(f"letter: {error}") from None
        if data["schema"] != LETTER_SCHEMA or data["kind"] not in KINDS:
            raise ContractError(f"a letter is of schema {LETTER_SCHEMA} and one of {', '.join(KINDS)}")
        if not all(0 <= data[name] < 2**63 for name in ("run_id", "attempt", "number")):
            raise ContractError("a letter's numbers lie from 0 to 2^63")
        return cls(**cast("dict[str, Any]", data))

    def is_signed_with(self, key: str) -> bool:
        """Whether who wrote it had the key."""
        try:
            return hmac.compare_digest(self._sign(key), self.signature.encode("ascii", "replace").decode())
        except (ValueError, RecursionError):  # no numbers, half characters, nested without end: nobody signs those
            return False

    def _signed(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "run_id": self.run_id,
            "attempt": self.attempt,
            "number": self.number,
            "body": self.body,
            "schema": self.schema,
        }

    def _sign(self, key: str) -> str:
        return hmac.new(key.encode(), canonical_json(self._signed()), hashlib.sha256).hexdigest()
