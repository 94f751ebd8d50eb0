"""What a package that adds to Tentalis has to hold to, as tests that its author runs: `pytest --tentalis-contract`.

Without that option nothing is collected, and nothing of Tentalis is imported.
"""

import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import pytest

OPTION: Final = "--tentalis-contract"
SUITES: Final = Path(__file__).with_name("suites")
OF_PYPROJECT: Final = "of pyproject.toml"


class Examples:
    """What else a package may tell the suites, as a hook in its conftest.py."""

    @pytest.hookspec(firstresult=True)
    def pytest_tentalis_examples(self, group: str, name: str) -> Any:
        """Of a grader: {"reference": …, "options"?: …, "right": [answers], "wrong": [answers]}."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tentalis").addoption(
        OPTION,
        nargs="?",
        const=OF_PYPROJECT,
        default=None,
        metavar="PACKAGE",
        help="also hold what a package adds to Tentalis (default: the one of pyproject.toml) to what is asked of it",
    )


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Examples)


def pytest_configure(config: pytest.Config) -> None:
    if (asked := config.getoption(OPTION)) is None:
        return
    points = list(_find_points(config, asked))
    if not points:
        raise pytest.UsageError(f"{OPTION}: {_name(config, asked)} has no entry point of a group tentalis.…")
    groups = {point.group.partition(".")[2] for point in points}
    suites = [SUITES / "test_plugins.py", *(SUITES / f"test_{group}.py" for group in sorted(groups))]
    if unknown := [one.stem.removeprefix("test_") for one in suites if not one.exists()]:
        raise pytest.UsageError(f"{OPTION}: there is no group tentalis.{unknown[0]}")
    config.args.extend(map(str, suites))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "point" not in metafunc.fixturenames or Path(metafunc.definition.path).parent != SUITES:
        return
    group = metafunc.module.GROUP
    found = _find_points(metafunc.config, metafunc.config.getoption(OPTION))
    points = [point for point in found if group in {"", point.group}]
    metafunc.parametrize("point", points, ids=[f"{point.group}:{point.name}" for point in points])


@pytest.fixture
def thing(point: EntryPoint) -> Any:
    """What the entry point holds; an instance where that is a class."""
    found = point.load()
    return found() if isinstance(found, type) else found


@pytest.fixture
def examples(point: EntryPoint, request: pytest.FixtureRequest) -> Any:
    """What its author says of it; None: nothing."""
    return request.config.hook.pytest_tentalis_examples(group=point.group, name=point.name)


def _find_points(config: pytest.Config, asked: str) -> Iterator[EntryPoint]:
    name = _name(config, asked)
    try:
        package = distribution(name)
    except PackageNotFoundError:
        raise pytest.UsageError(f"{OPTION}: wanted an installed package, found none that is called {name}") from None
    yield from (point for point in package.entry_points if point.group.startswith("tentalis."))


def _name(config: pytest.Config, asked: str) -> str:
    if asked != OF_PYPROJECT:
        return asked
    file = config.rootpath / "pyproject.toml"
    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"])
    except (OSError, ValueError, KeyError):
        raise pytest.UsageError(f"{OPTION}: wanted a package's name, for {file} names none") from None
