"""The worlds there are, by name: the packages of this folder, and what other packages add."""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Final

from django.conf import settings

from apps import worlds
from apps.worlds.elsewhere.mcp import McpWorld
from apps.worlds.elsewhere.openenv import OpenEnvWorld
from apps.worlds.errors import UnknownEnvironmentError
from tentalis.core.scoring.weights import WeightProfile
from tentalis.core.tool_servers import ToolServer
from tentalis.core.world_servers import WorldServer
from tentalis.core.worlds import AgentKind, World
from tentalis.plugins import Registry

DEFAULT: Final = "chat"
"""Where work belongs that nobody placed."""


def get_world(name: str) -> World:
    """The world of that name.

    Raises:
        UnknownEnvironmentError: there is none.
    """
    if world := WORLDS.get(name):
        return world
    message = f"environment: {WORLDS.refuse(name)}"
    if why := find_obstacles().get(name):
        message = f"environment: {name} {why}"
    raise UnknownEnvironmentError(message, errors={"environment": [message]})


def find_world(name: str) -> World:
    """The world of that name; of one that is here no more, a plain one that says what is known of it."""
    return WORLDS.get(name) or World()


def name_choices() -> list[tuple[str, str]]:
    """(name, label) of every world, for who chooses one."""
    return [(world.name, world.label) for world in WORLDS.values()]


def find_obstacles() -> dict[str, str]:
    """Worlds of this folder that cannot be played on this machine -> what it lacks."""
    found = {world.name: world.find_obstacle() for world in list_own_worlds()}
    return {name: why for name, why in found.items() if why}


def list_own_worlds() -> list[World]:
    """Those of this folder, whether this machine can play them or not."""
    return [module.WORLD for module in _list_packages()]


def find_own_agents() -> Iterator[AgentKind]:
    """The kinds of workers that the worlds of this folder bring along."""
    for module in _list_packages():
        if hasattr(module, "AGENT"):
            yield module.AGENT


def _list_packages() -> list[ModuleType]:
    found = iter_modules(worlds.__path__, f"{worlds.__name__}.")
    packages = [import_module(module.name) for module in found if module.ispkg]
    return [one for one in packages if hasattr(one, "WORLD")]


def _list_own() -> dict[str, World]:
    """Those of this folder that this machine can play, and those on servers that the settings name.

    Raises:
        ValueError: both have a name.
    """
    own = {world.name: world for world in list_own_worlds()}
    servers: Mapping[str, WorldServer] = settings.TENTALIS["OPENENV"]
    tools: Mapping[str, ToolServer] = settings.TENTALIS["MCP_WORLDS"]
    for setting, named, taken in (("OPENENV", servers, set(own)), ("MCP_WORLDS", tools, {*own, *servers})):
        if shared := sorted(taken & set(named)):
            raise ValueError(f"TENTALIS_{setting}: wanted names of its own, found {', '.join(shared)}, which are taken")
    usual_first = sorted(own.items(), key=lambda one: one[0] != DEFAULT)  # it is what a form begins with
    playable = {name: world for name, world in usual_first if not world.find_obstacle()}
    elsewhere = {name: OpenEnvWorld(name, server) for name, server in servers.items()}
    return playable | elsewhere | {name: McpWorld(name, server) for name, server in tools.items()}


def _read_world(name: str, found: Any) -> World:
    world = found() if inspect.isclass(found) else found
    if not isinstance(world, World):
        raise TypeError(f"wanted a tentalis.core.worlds.World, found {type(world).__name__}")
    for field in ("name", "label"):
        if not isinstance(getattr(world, field, None), str) or not getattr(world, field):
            raise TypeError(f"a world wants a {field}, found none")
    if world.name != name:
        raise ValueError(f"wanted a world that is named as its entry point, {name!r}, found {world.name!r}")
    WeightProfile(name, world.profile)
    if why := world.find_obstacle():
        raise RuntimeError(f"{name} {why}")
    return world


WORLDS: Final = Registry[World](
    "tentalis.worlds",
    "environment",
    _list_own,
    _read_world,
)
