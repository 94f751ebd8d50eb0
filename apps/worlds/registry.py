"""The worlds there are, by name."""

from typing import Final

from apps.worlds.chat.world import ChatWorld
from apps.worlds.desk.world import DeskWorld
from apps.worlds.errors import EnvironmentNotAvailableError, UnknownEnvironmentError
from tentalis.core.worlds import World

WORLDS: Final[dict[str, World]] = {world.name: world for world in (ChatWorld(), DeskWorld())}
NOT_AVAILABLE: Final = ("terminal", "swe", "gui")
"""Known to everyone who speaks to us, and waiting for their sandbox."""


def get_world(name: str) -> World:
    """The world of that name.

    Raises:
        UnknownEnvironmentError, EnvironmentNotAvailableError
    """
    if world := WORLDS.get(name):
        return world
    available = ", ".join(sorted(WORLDS))
    if name in NOT_AVAILABLE:
        message = f"environment {name!r} needs a sandbox that this installation does not have; available: {available}"
        raise EnvironmentNotAvailableError(message, errors={"environment": [message]})
    message = f"environment must be one of {available}; found {name!r}"
    raise UnknownEnvironmentError(message, errors={"environment": [message]})
