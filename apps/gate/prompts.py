"""List every prompt the gate may try an adapter on, so that what learnt one is known before it is tried."""

from dataclasses import replace

from apps.evals.panels import Panel, draw_fresh, draw_skills
from apps.gate.sides import SKILLS_DRAWN, SKILLS_SEED
from tentalis.core.learning.collapse import ENOUGH_ANSWERS
from tentalis.core.learning.gate import GatePolicy


def list_measured(panel: Panel, policy: GatePolicy, *, sha256: str = "") -> set[str]:
    """Prompts of the panel and of what makes a small one longer, of the skills that must not be lost, and of what is
    drawn for one candidate alone.

    Args:
        sha256: the candidate's; "" before there is one, when nobody can know what will be drawn for it.
    """
    drawn = [*replace(panel, size=max(panel.size, ENOUGH_ANSWERS)).items]
    if size := min(policy.skills_size, panel.size):
        drawn += draw_skills(replace(panel, size=SKILLS_DRAWN * size, seed=SKILLS_SEED))
    if sha256:
        fresh = draw_fresh(panel, key=sha256, policy=policy)
        drawn += [*fresh.first.items, *fresh.further.items]
    return {item.prompt for item in drawn}
