"""The graders, a family a file: each module names its own as `GRADERS`."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from apps.evals.sandboxed_graders import keep_apart
from tentalis.core.grading import Grader
from tentalis.plugins import GRADERS, Registry, find_plugins

__all__ = ["REGISTRY"]


def _list_own() -> Mapping[str, Grader]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {grader.name: grader for module in modules for grader in module.GRADERS}


def _read_grader(name: str, found: Any) -> Grader:
    """A grader, or a bare function, whose version is then its package's."""
    thing = found() if inspect.isclass(found) else found
    if isinstance(thing, Grader):
        if thing.name != name:
            raise ValueError(f"wanted a grader that is named as its entry point, {name!r}, found {thing.name!r}")
        return thing
    if not callable(thing):
        raise TypeError(f"wanted a Grader or a function of (task, episode), found {type(thing).__name__}")
    package = next((plugin.package for plugin, _ in find_plugins(GRADERS) if plugin.name == name), "")
    return Grader(
        name=name,
        version=package.rpartition(" ")[2] or "0",
        about=(inspect.getdoc(thing) or "").partition("\n")[0],
        grade=thing,
        wants_reference=False,
    )


REGISTRY: Final = Registry[Grader](GRADERS, "grader", _list_own, _read_grader, keep_apart)
