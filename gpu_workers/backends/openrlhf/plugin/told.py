"""What the run tells its processes: one JSON object in the environment of the Ray job."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

VARIABLE = "TENTALIS_RLHF"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a run wants beyond OpenRLHF's own flags.

    Args:
        parent: directory of the adapter that training goes on from; "" starts a fresh one.
        parent_is_reference: whether a model without an adapter is to be the parent's policy too (DPO's reference).
        head_alone: whether a reward model's base stays as it is.
        teacher_url: server in vLLM's dialect that scores answers under the hint; "" distils nothing.
        teacher_model: its name there.
        w_rl, w_opd: weights of the reward's advantage and of the hint's.
        opd_clip: the teacher's gap in nats is clipped to [-opd_clip, opd_clip].
        opd_least_share: the hint's mean is over at least this share of an update's tokens.
    """

    parent: str = ""
    parent_is_reference: bool = False
    head_alone: bool = False
    teacher_url: str = ""
    teacher_model: str = ""
    w_rl: float = 1.0
    w_opd: float = 0.0
    opd_clip: float = 3.0
    opd_least_share: float = 0.25


def read_told(environment: Mapping[str, str] | None = None) -> Told:
    """Raises ValueError for a variable that is no such object."""
    data: Any = json.loads((os.environ if environment is None else environment).get(VARIABLE, "{}"))
    if unknown := sorted(set(data) - {item.name for item in fields(Told)}):
        raise ValueError(f"{VARIABLE} has no {', '.join(unknown)}")
    return Told(**data)
