"""How a project learns from conversations, and what it keeps of people's words for that."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from tentalis.core.checked import Checked, Text, choice, flag, number, several
from tentalis.core.sampling import POLICIES, SamplingPolicy

People = Literal["all", "named", "nobody"]
PEOPLE: Final[tuple[People, ...]] = ("all", "named", "nobody")
Redaction = Literal["off", "mask", "mask_loss_only"]
REDACTIONS: Final[tuple[Redaction, ...]] = ("mask", "mask_loss_only", "off")
DAY_S = 86_400


@dataclass(frozen=True, kw_only=True)
class SessionPolicy(Checked):
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

    NOUN: ClassVar[str] = "session policy"

    learn: bool = flag(False)
    idle_s: float = number(1_800.0, 10, 30 * DAY_S)
    judge: bool = flag(True)
    votes: int = number(3, 1, 15)
    fastest_s: float = number(2.0, 0, 60)
    people: People = choice("all", PEOPLE)
    redaction: Redaction = choice("mask", REDACTIONS)
    names: tuple[str, ...] = several((), Text(200, 1), most=1_000)
    sampling: SamplingPolicy = choice("keep", POLICIES)
    keep_days: int | None = number(None, 1, 36_500, whole=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.votes % 2 == 0:
            raise self.refuse("votes", wanted="an odd number", found=self.votes)
