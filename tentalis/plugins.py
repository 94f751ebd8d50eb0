"""What others add to an installation: packages that name worlds, agents, graders and more as entry points.

A package says so in its pyproject.toml:

    [project.entry-points."tentalis.worlds"]
    counter = "tentalis_counter:CounterWorld"

What cannot be loaded is kept with its error and used by nobody. What comes of a package that nobody vouched for
(`TENTALIS_TRUSTED_PLUGINS`) is imported in a process of its own first.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import EntryPoint, distributions, entry_points
from threading import RLock
from typing import Any, Final, Generic, TypeVar

AGENTS, GRADERS, BACKENDS = "tentalis.agents", "tentalis.graders", "tentalis.backends"
GROUPS: Final = (
    "tentalis.worlds", AGENTS, GRADERS, "tentalis.scorers", "tentalis.managers", "tentalis.supervisors",
    "tentalis.monitors", BACKENDS,
)  # fmt: skip
OWN_BACKENDS: Final = ("standalone", "openrlhf", "tinker")
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """An entry point of another package.

    Args:
        package: and its version, as installed.
        error: why it is not used; "" where it is.
    """

    group: str
    name: str
    package: str
    error: str = ""


def find_plugins(group: str) -> Iterator[tuple[Plugin, EntryPoint]]:
    """The entry points of a group by name and package; agents live in environments beside ours too. Nothing of them is
    imported."""
    points = [*entry_points(group=group), *(_list_beside() if group == AGENTS else ())]
    found = [(Plugin(group, point.name, _name_package(point)), point) for point in points]
    yield from sorted(set(found), key=lambda pair: (pair[0].name, pair[0].package, pair[1].value))


def name_plugins(group: str) -> list[str]:
    """What a group's entry points are called, as far as these are names. Nothing of them is imported."""
    return [plugin.name for plugin, _ in find_plugins(group) if NAME.fullmatch(plugin.name)]


def name_backends() -> list[str]:
    """Who can be asked to train: ours, and what other packages add, which the training box alone loads."""
    return list(dict.fromkeys([*OWN_BACKENDS, *name_plugins(BACKENDS)]))


def list_plugins() -> list[Plugin]:
    """Everything that other packages add, each with why it is not used; backends load on the training box alone."""
    found = [plugin for registry in REGISTRIES.values() for plugin in registry.plugins]
    return found + [plugin for plugin, _ in find_plugins(BACKENDS)]


def is_trusted(point: EntryPoint) -> bool:
    """Whether the settings vouch for its package."""
    from tentalis.env import read_variable  # which asks for the names of backends

    return point.dist is not None and normalize(point.dist.name) in map(normalize, read_variable("TRUSTED_PLUGINS"))


def normalize(package: str) -> str:
    """A package's name in the one way it is compared in."""
    return re.sub(r"[-_.]+", "-", package).lower()


def load_plugin(
    plugin: Plugin, point: EntryPoint, *, taken: Mapping[str, str], apart: "MakeApart[Any] | None" = None
) -> tuple[Plugin, Any]:
    """Import one; with its error and None where that fails, or the name is no name or taken.

    Args:
        taken: name -> whose it is.
        apart: makes what stands for one that is not loaded here.
    """
    if not NAME.fullmatch(plugin.name):
        error = f"wanted a name of lower-case letters, digits and _, found {plugin.name!r:.80}"
        return replace(plugin, error=error), None
    if plugin.name in taken:
        return replace(plugin, error=f"the name {plugin.name} is taken by {taken[plugin.name]}"), None
    told: Mapping[str, Any] = {}
    from tentalis.plugin_trials import find_python, try_plugin

    if find_python(point) is not None or not is_trusted(point):  # what lies elsewhere is nowhere loaded but there
        verdict = try_plugin(point)
        if verdict.error:
            return replace(plugin, error=verdict.error), None
        told = verdict.told
    try:
        if apart is not None and (made := apart(plugin, point, told)) is not None:
            return plugin, made
        with redirect_stdout(sys.stderr):  # our standard output may be somebody's protocol
            return plugin, point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - another's code: whatever it does must not stop ours
        return replace(plugin, error=say_error(error)), None


def _list_beside() -> Iterator[EntryPoint]:
    """The agents of other environments than this one."""
    from tentalis.plugin_trials import list_environments

    for _, site in list_environments():
        for package in distributions(path=[str(site)]):
            yield from package.entry_points.select(group=AGENTS)


def _name_package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "no package"


def say_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


MakeApart = Callable[[Plugin, EntryPoint, Mapping[str, Any]], T | None]
"""Of a plug-in and what its trial told of it; None: it is to be loaded."""
is_trial = False
"""Whether this process only tries one: it knows no others then."""


class Registry(Generic[T]):
    """Things of one kind by name: our own, and those that other packages add as entry points.

    Read once a process, when it is first asked.

    Args:
        noun: what a message calls one.
        built_in: ours, which nobody can take the place of.
        read: makes a thing of what an entry point holds; raises ValueError or TypeError saying what it lacks.
        apart: makes a thing that stands for one which is not loaded here.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        built_in: Callable[[], Mapping[str, T]],
        read: Callable[[str, Any], T],
        apart: "MakeApart[T] | None" = None,
    ) -> None:
        self.group, self.noun = group, noun
        self._built_in, self._read, self._apart = built_in, read, apart
        self._lock = RLock()
        REGISTRIES[group] = self

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def get(self, name: str) -> T | None:
        return self._things.get(name)

    def values(self) -> Iterable[T]:
        return self._things.values()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._things)

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Those of other packages, with why one is not used."""
        return self._loaded[1]

    def refuse(self, name: object) -> str:
        """What to say to who names one there is none of."""
        return f"wanted one of {', '.join(self)}, found {name!r:.80}"

    def forget(self) -> None:
        """Read the installed packages anew when asked next."""
        with self._lock:
            vars(self).pop("_loaded", None)

    @property
    def _things(self) -> Mapping[str, T]:
        return self._loaded[0]

    @cached_property
    def _loaded(self) -> tuple[Mapping[str, T], tuple[Plugin, ...]]:
        with self._lock:
            things = dict(self._built_in())
            owners = dict.fromkeys(things, "Tentalis itself")
            plugins = []
            for plugin, point in find_plugins(self.group) if not is_trial else ():
                plugin, found = load_plugin(plugin, point, taken=owners, apart=self._apart)
                if not plugin.error:
                    try:
                        things[plugin.name] = self._read(plugin.name, found)
                        owners[plugin.name] = plugin.package
                    except Exception as error:  # noqa: BLE001 - as above: it may be made by their code
                        plugin = replace(plugin, error=say_error(error))
                plugins.append(plugin)
            return things, tuple(plugins)


REGISTRIES: Final[dict[str, Registry[Any]]] = {}
"""Every registry by the group of its entry points."""
