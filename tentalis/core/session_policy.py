"""How a project learns from conversations, and what it keeps of people's words for that."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from tentalis.core.sampling import POLICIES, SamplingPolicy

People = Literal["all", "named", "nobody"]
PEOPLE: Final[tuple[People, ...]] = ("all", "named", "nobody")
Redaction = Literal["off", "mask", "mask_loss_only"]
REDACTIONS: Final[tuple[Redaction, ...]] = ("mask", "mask_loss_only", "off")
MAX_NAMES, MAX_NAME_CHARS = 1_000, 200
MAX_FASTEST_S = 60.0
MAX_KEEP_DAYS = 36_500


class SessionPolicyError(ValueError):
    """A policy field is not what it must be; the message names it, what was wanted and what was found."""


@dataclass(frozen=True, kw_only=True)
class SessionPolicy:
    """`Project.session_policy`, read.

    Args:
        learn: whether conversations that nobody submitted as tasks are learnt from. What is captured does not depend
            on it.
        idle_s: silence after which a session counts as done.
        judge: whether a model is asked where rules cannot tell.
        votes: how often it is asked of one turn; odd.
        fastest_s: words that come sooner after an answer are a program's: they go on with its turn and say nothing of
            it. 0: a person, or who stands for one, may be as fast as that.
        people: in whose sessions the next words are a person's: `all`, those that the caller `named`, or `nobody`'s.
        redaction: what becomes of personal data and secrets in what is stored for training: `mask` masks the texts and
            refuses exchanges whose tokens hold some; `mask_loss_only` masks the texts, and trains on such exchanges
            without those answers that hold some; `off` looks for nothing.
        names: people's names and other words to mask wherever they stand.
        sampling: what the gateway does with a caller's temperature, top_p and the like: `keep` hands them on and learns
            from what can be corrected for; `enforce` asks for temperature 1 and nothing else, so that every answer can
            be learnt from; `refuse` answers 400 to anything else.
        keep_days: days after its last exchange that a session which taught nothing is kept; None: for good.
    """

    learn: bool = False
    idle_s: float = 1_800.0
    judge: bool = True
    votes: int = 3
    fastest_s: float = 2.0
    people: People = "all"
    redaction: Redaction = "mask"
    names: tuple[str, ...] = ()
    sampling: SamplingPolicy = "keep"
    keep_days: int | None = None

    def __post_init__(self) -> None:
        for name in ("learn", "judge"):
            if not isinstance(getattr(self, name), bool):
                raise SessionPolicyError(f"{name}: wanted true or false, found {getattr(self, name)!r:.80}")
        if not _is_number(self.idle_s) or not 10 <= self.idle_s <= 30 * 86_400:
            raise SessionPolicyError(f"idle_s: wanted 10 to 2,592,000 seconds, found {self.idle_s!r:.80}")
        if type(self.votes) is not int or self.votes not in range(1, 16, 2):
            raise SessionPolicyError(f"votes: wanted an odd number from 1 to 15, found {self.votes!r:.80}")
        if not _is_number(self.fastest_s) or not 0 <= self.fastest_s <= MAX_FASTEST_S:
            raise SessionPolicyError(f"fastest_s: wanted 0 to 60 seconds, found {self.fastest_s!r:.80}")
        if self.people not in PEOPLE:
            raise SessionPolicyError(f"people: wanted one of {', '.join(PEOPLE)}, found {self.people!r:.80}")
        if self.redaction not in REDACTIONS:
            raise SessionPolicyError(f"redaction: wanted one of {', '.join(REDACTIONS)}, found {self.redaction!r:.80}")
        if self.sampling not in POLICIES:
            raise SessionPolicyError(f"sampling: wanted one of {', '.join(POLICIES)}, found {self.sampling!r:.80}")
        days = self.keep_days
        if days is not None and (type(days) is not int or not 1 <= days <= MAX_KEEP_DAYS):
            raise SessionPolicyError(f"keep_days: wanted 1 to {MAX_KEEP_DAYS:,} days or null, found {days!r:.80}")
        names: Any = self.names
        if not isinstance(names, tuple) or not all(isinstance(name, str) and name.strip() for name in names):
            raise SessionPolicyError(f"names: wanted a list of words, found {names!r:.80}")
        if len(names) > MAX_NAMES or any(len(name) > MAX_NAME_CHARS for name in names):
            raise SessionPolicyError(f"names: wanted at most {MAX_NAMES} of at most {MAX_NAME_CHARS} characters")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a policy; a field that is left out takes its default.

        Raises:
            SessionPolicyError: an unknown field, or one that is not what it must be.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(map(str, data)) - set(known)):
            raise SessionPolicyError(f"a session policy has no field {', '.join(unknown)}; it knows {', '.join(known)}")
        values = dict(data)
        if isinstance(values.get("names"), list):
            values["names"] = tuple(values["names"])
        return cls(**values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
