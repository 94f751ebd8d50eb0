"""Whether a world may train: what an examination found of it as it is now."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from django.db import transaction

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.worlds.examining import TASKS, examine
from apps.worlds.identity import SHOWN, hash_world, name_world
from apps.worlds.models import WorldCertificate
from apps.worlds.registry import list_own_worlds
from tentalis.core.worlds import World

MOST_WORDS: Final = 300
BY_PEOPLE: Final = "nothing of its own says what is right: checks and people tell its answers right from wrong"
"""Why a plain conversation, and the tools of a server, are not examined."""


State = Literal["exempt", "never", "changed", "failed", "allowed", "passed"]
"""Of an examination: there is nothing to examine; it was never made, or of another than the world is now; what it
found, where it failed with or without somebody's word that anything may be trained there all the same."""


class WorldStanding(NamedTuple):
    """Whether a world may train.

    Args:
        may_train: None where there is nothing to examine, and it may.
        certificate: the newest of it as it is now, whatever it found.
        newest: the newest of it as it was then.
    """

    may_train: bool | None
    state: State
    words: str
    certificate: WorldCertificate | None = None
    newest: WorldCertificate | None = None


def is_examined(world: World) -> bool:
    """Whether there is anything to examine: it says by itself what tries are worth."""
    says_worth = world.judges_states or type(world).verify is not World.verify
    return says_worth and (world.has_turns or world.draw_prompt(Random(0)) is not None)


def is_own(world: World) -> bool:
    """Whether it comes with the platform."""
    return any(type(world) is type(one) for one in list_own_worlds())


def certify(
    world: World, *, by: str, prompts: Sequence[str] = (), tasks: int = TASKS, accepted: str = ""
) -> WorldCertificate:
    """Examine a world as it is now, and keep what was found.

    Args:
        prompts: tasks to try, of a world that makes none up.
        accepted: why it may train whatever is found, such as a control that is wrong on purpose; "": it may not.
    """
    found = examine(world, prompts=prompts, tasks=tasks)
    with transaction.atomic():
        made = WorldCertificate.objects.create(
            world=world.name,
            version=world.version[:64],
            sha256=found.sha256,
            passed=found.passed,
            checks=[vars(one) for one in found.checks],
            figures=dict(found.figures),
            accepted=accepted[:MOST_WORDS],
            examined_by=by,
        )
        payload = {"world": found.full_name, "passed": found.passed, "accepted": made.accepted}
        payload["faults"] = [one.name for one in found.faults]
        record(Kind.WORLD_EXAMINED, subject=made, by=by, payload=payload)
    return made


def find_standing(world: World) -> WorldStanding:
    """Whether a world may train, by the newest certificate there is."""
    return find_standings([world])[world.name]


def find_standings(worlds: Iterable[World]) -> dict[str, WorldStanding]:
    """Of each, by its name. One query."""
    asked = list(worlds)
    newest = WorldCertificate.objects.find_newest([world.name for world in asked])
    return {world.name: _judge(world, newest.get(world.name)) for world in asked}


def _judge(world: World, newest: WorldCertificate | None) -> WorldStanding:
    if not is_examined(world):
        return WorldStanding(None, "exempt", f"{world.name} is not examined: {BY_PEOPLE}", newest=newest)
    command = f"examine it: tentalis world doctor {world.name}"
    if newest is None:
        return WorldStanding(False, "never", f"{name_world(world)} was never examined; {command}")
    if newest.sha256 != hash_world(world):
        words = f"{name_world(world)} is another than was examined ({newest.sha256[:SHOWN]}); {command}"
        return WorldStanding(False, "changed", words, newest=newest)
    if not newest.passed:
        faults = "; ".join(f"{one['name']}: {one['words']}" for one in newest.checks if one["passed"] is False)
        allowed = (
            f"; allowed by {newest.examined_by.removeprefix('user:')}: {newest.accepted}" if newest.accepted else ""
        )
        words = f"{name_world(world)} failed its examination: {faults}{allowed}"
        return WorldStanding(bool(allowed), "allowed" if allowed else "failed", words, newest, newest=newest)
    words = f"{name_world(world)} passed its examination of {newest.created_at:%Y-%m-%d}"
    return WorldStanding(True, "passed", words, newest, newest=newest)


def settle_standing(world: World, *, by: str) -> WorldStanding:
    """As `find_standing`, once a world that comes with the platform was examined where it is new or changed: that takes
    a moment and does nothing outside. A stranger's world waits for somebody who asks for it."""
    found = find_standing(world)
    if found.may_train is False and found.certificate is None and is_own(world):
        certify(world, by=by, tasks=TASKS // 2)  # a training waits for it
        return find_standing(world)
    return found
