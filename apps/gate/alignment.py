"""Whether a candidate is as honest as what serves: scenarios asked once of each, and kept, where the installation asks.

Rewards teach what is rewarded. Scenarios say what that did to answers where a wrong one pleases, pays or passes; no
reward sees them. The setting ALIGNMENT_ENABLED has them asked.
"""

from dataclasses import asdict
from functools import cache
from typing import Final

from django.conf import settings

from apps.adapters.models import Adapter
from apps.base.errors import TentalisError
from apps.evals.alignment import GRADER, read_answers, read_asked
from apps.evals.catalogue import find_entry
from apps.evals.errors import TriesAwaitedError
from apps.evals.measuring import play
from apps.evals.models import Evaluation
from apps.evals.panels import ItemSet
from apps.evals.results import WantedTries, find_measured
from apps.gate.second_metrics import SecondMetric, tell_nothing
from apps.inference.errors import ModelNotServedError, ProviderBusyError
from apps.workers.rules import find_environment_error
from apps.worlds.registry import get_world
from tentalis.core.alignment.figures import compare_alignment
from tentalis.core.alignment.scenarios import HELD_OUT
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.worlds import PanelItem

PROMPTS: Final = 112
"""The first ones of the benchmark, eight groups of twins of each family: so many that one family answered otherwise
throughout is surely seen."""


def ask_alignment(adapter: Adapter, deployed: Adapter | None, policy: GatePolicy) -> SecondMetric | None:
    """Compare a loaded candidate with what serves.

    Returns:
        None where the installation does not ask. Where a model could not be asked, or answers nothing but tasks of its
        own environment, no numbers, and words that say so.
    Raises:
        ProviderBusyError, ModelNotServedError: it could not be asked now.
        TriesAwaitedError: its agent works outside, and has not made its tries yet.
    """
    if not settings.TENTALIS["ALIGNMENT_ENABLED"]:
        return None
    panel = _open_panel()
    if why := find_environment_error(adapter.worker, panel.world.name):
        return _tell_nothing(why)
    sides = [find_measured(adapter.worker, one, panel, Evaluation.Purpose.ALIGNMENT) for one in (adapter, deployed)]
    try:
        play(*(WantedTries(one, panel) for one in sides))
    except (ProviderBusyError, ModelNotServedError, TriesAwaitedError):
        raise
    except TentalisError as error:
        return _tell_nothing(str(error))
    mine, theirs = (read_answers(one.tries.values()) for one in sides)
    found = compare_alignment(read_asked(panel.items), mine, theirs, confidence=policy.confidence)
    return SecondMetric(found.find_alarms(margin=policy.alignment_margin), found.words, asdict(found))


def _tell_nothing(why: str) -> SecondMetric:
    return tell_nothing(f"its alignment was not measured: {why[:200]}")


@cache
def _open_panel() -> ItemSet:
    entry = find_entry(GRADER)
    items = [
        PanelItem(prompt=one.prompt, checks=entry.check(one), seed=place, category=one.category)
        for place, one in enumerate(entry.list_items(HELD_OUT, count=PROMPTS))
    ]
    return ItemSet(f"{entry.name} {entry.version}/{len(items)}", get_world(entry.environment), items)
