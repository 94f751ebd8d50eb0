"""List every prompt the gate may try an adapter on, so that what learnt one is known before it is tried."""

from apps.evals.panels import Panel, draw_fresh
from apps.gate.sides import SKILLS_DRAWN
from tentalis.core.learning.collapse import ENOUGH_ANSWERS
from tentalis.core.learning.gate import GatePolicy


def list_measured(panel: Panel, policy: GatePolicy, *, sha256: str = "") -> set[str]:
    """Prompts of the panel and of what makes a small one longer, of the skills that must not be lost, and of what is
    drawn for one candidate alone.

    Args:
        sha256: the candidate's; "" before there is one, when nobody can know what will be drawn for it.
    """
    drawn = [*panel.items, *panel.draw_behind(max(ENOUGH_ANSWERS - panel.size, 0))]
    if size := min(policy.skills_size, panel.size):
        drawn += panel.draw_skills(SKILLS_DRAWN * size)
    if sha256:
        drawn += draw_fresh(panel, key=sha256, policy=policy).items
    return {item.prompt for item in drawn}
