"""Graders of packages that nobody vouched for: asked in a sandbox, a fresh one for each answer.

Who installs a package lets it run; what it does with an answer, which a model wrote, is another thing.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import tentalis
from apps.worlds.sandboxes import open_client
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError
from tentalis.core.scoring.protocol import AttemptContext
from tentalis.plugins import Plugin, is_trusted, normalize
from tentalis.sandbox.errors import SandboxError
from tentalis.sandbox.kept import KeptImage
from tentalis.verification.environments import BuildError, Interpreter, bring, find_interpreter

LIMITS: Final[Mapping[str, float]] = {
    "memory_bytes": 512 << 20, "processes": 16, "disk_bytes": 32 << 20, "lifetime_s": 120,
}  # fmt: skip
GRADE_S: Final = 30.0
MOST_BYTES: Final = 256 * 2**20
"""Of a grader's package and all it stands on."""
SITE: Final = "/opt/site"
_REQUIRED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PROGRAM: Final = f"""
import importlib, inspect, json, os, sys
out = os.dup(1)
os.dup2(2, 1)
sys.path.insert(0, {SITE!r})
asked = json.loads(sys.stdin.buffer.read())
from dataclasses import asdict
from tentalis.core.grading import GradedTask, Grader, UngradedError, read_grade
from tentalis.core.scoring.protocol import AttemptContext, Source
from tentalis.core.steps import ParsedStep
context = asked["episode"]
context["steps"] = tuple(ParsedStep(**one) for one in context["steps"])
context["sources"] = tuple(Source(**one) for one in context["sources"])
module, _, attribute = asked["value"].partition(":")
try:
    grader = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        grader = getattr(grader, name)
    grader = grader() if inspect.isclass(grader) else grader
    task, episode = GradedTask(**asked["task"]), AttemptContext(**context)
    if isinstance(grader, Grader):
        grader.check_given(task.reference, task.options)
        grade = grader.run(task, episode)
    else:
        grade = read_grade(grader(task, episode))
    told = {{"grade": asdict(grade)}}
except UngradedError as error:
    told = {{"ungraded": str(error)}}
except BaseException as error:
    told = {{"ungraded": f"it raised {{type(error).__name__}}: {{error}}"[:500]}}
os.write(out, json.dumps(told).encode())
os._exit(0)
"""


def keep_apart(plugin: Plugin, point: EntryPoint, told: Mapping[str, Any]) -> Grader | None:
    """What stands here for a grader that only a sandbox imports; None for one that is vouched for.

    Raises:
        TypeError, ValueError: it is no grader, or one that cannot be asked there.
    """
    if is_trusted(point):
        return None
    said = dict(told.get("grader") or {})
    if not said and not told.get("is_callable"):
        raise TypeError("wanted a Grader or a function of (task, episode), found neither")
    if said.get("name", plugin.name) != plugin.name:
        raise ValueError(f"wanted a grader that is named as its entry point, {plugin.name!r}, found {said['name']!r}")
    if said.get("asks"):
        name = plugin.package.rpartition(" ")[0]
        raise ValueError(f"it asks a judge, which a sandbox has no way to: name {name} in TENTALIS_TRUSTED_PLUGINS")
    return Grader(
        name=plugin.name,
        version=str(said.get("version") or plugin.package.rpartition(" ")[2] or "0"),
        about=str(said.get("about", told.get("about", ""))),
        grade=partial(_grade, point, KeptImage(partial(_lay_image, point))),
        options={str(name): str(about) for name, about in (said.get("options") or {}).items()},
        wants_reference=bool(said.get("wants_reference", False)),
        is_pure=False,
    )


def _grade(point: EntryPoint, image: KeptImage, task: GradedTask, episode: AttemptContext) -> Grade:
    given = {"prompt": task.prompt, "reference": task.reference, "options": dict(task.options)}
    asked = {"value": point.value, "task": given, "episode": asdict(episode)}
    try:
        argv = [str(_find_python().path), "-I", "-c", _PROGRAM]
        client = open_client()
        with image.open(client, limits=LIMITS) as sandbox:
            done = client.run(sandbox, argv, stdin=json.dumps(asked, default=str).encode(), timeout_s=GRADE_S)
    except (SandboxError, BuildError) as error:
        raise UngradedError(f"no sandbox could be had to grade in: {error}") from None
    if done.timed_out:
        raise UngradedError(f"it did not grade within {GRADE_S:g} s")
    try:
        told = json.loads(done.out)
        return Grade(**told["grade"]) if "grade" in told else _leave(str(told["ungraded"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        words = done.err.decode(errors="replace").strip()[-200:]
        raise UngradedError(f"it gave no grade, and ended with code {done.code}: {words}") from None


def _leave(cause: str) -> Grade:
    raise UngradedError(cause)


@cache
def _find_python() -> Interpreter:
    """Of our own version. Raises BuildError."""
    return find_interpreter(f"{sys.version_info[0]}.{sys.version_info[1]}")


def _lay_image(point: EntryPoint, root: Path) -> None:
    """The grader's package, what it stands on, and the core: all that its sandbox has."""
    site = root / SITE.lstrip("/")
    ours = Path(tentalis.__file__).parent
    left = MOST_BYTES
    for path in [ours / "__init__.py", *(ours / "core").rglob("*.py")]:
        left -= _copy(path, site / "tentalis" / path.relative_to(ours))
    for path, place in _list_files(point):
        if (left := left - _copy(path, site / place)) < 0:
            raise BuildError(f"{point.value}: its packages are more than {MOST_BYTES >> 20} MiB")
    for path in _find_python().brought:
        bring(path, root)


def _copy(path: Path, to: Path) -> int:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)
    return path.stat().st_size


def _list_files(point: EntryPoint) -> Iterator[tuple[Path, Path]]:
    """Files and where they go: the module itself, wherever it lies, and those of the packages that are required."""
    top = point.value.partition(":")[0].partition(".")[0]
    spec = find_spec(top)
    for place in (spec.submodule_search_locations or []) if spec else []:
        files = (path for path in Path(place).rglob("*") if path.is_file() and path.suffix != ".pyc")
        yield from ((path, Path(top) / path.relative_to(place)) for path in files)
    if spec and spec.origin and not spec.submodule_search_locations:
        yield Path(spec.origin), Path(Path(spec.origin).name)
    for package in _list_required(point.dist):
        for file in package.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and path.suffix != ".pyc" and path.is_file():
                yield path, Path(file)


def _list_required(package: Distribution | None) -> Iterator[Distribution]:
    seen, waiting = {"tentalis"}, [package] if package else []
    while waiting:
        one = waiting.pop()
        for wanted in one.requires or ():
            name = normalize(match[0]) if (match := _REQUIRED.match(wanted)) else ""
            if name in seen or "extra ==" in wanted:
                continue
            seen.add(name)
            try:
                found = distribution(name)
            except PackageNotFoundError:  # it is wanted elsewhere: on another system, by another Python
                continue
            yield found
            waiting.append(found)
