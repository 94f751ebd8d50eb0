"""Tasks in Harbor's form: a directory with task.toml, instruction.md, environment/, tests/test.sh, solution/solve.sh.

A sandbox here has this machine's system. So what can be had is a Dockerfile that lays files over a plain system; any
other wants a container engine, and it is said which line does.
Source: harborframework.com/docs/tasks.
"""

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tentalis.core.swe.repo_tasks import MAX_TESTS_S, SCRIPTED, Environment, RepoTask, RepoTaskError
from tentalis.verification.loading import LoadedTask, read_files

MARK: Final = "task.toml"
TESTS, SOLUTION = "/tests", "/solution"
TIMEOUT_S: Final = 600.0
_PLAIN: Final = re.compile(r"(scratch|python|debian|ubuntu|buildpack-deps)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")
_SAYS_NOTHING: Final = frozenset({"CMD", "ENTRYPOINT", "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK"})


@dataclass
class _Built:
    workdir: str = "/"
    files: dict[str, bytes] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


def load_harbor(directory: Path) -> LoadedTask:
    """The task that a directory in Harbor's form holds.

    Raises:
        RepoTaskError: it is none, or wants an image.
    """
    told = _read_toml(directory / MARK)
    environment = told.get("environment", {})
    if image := environment.get("docker_image"):
        raise RepoTaskError(f"{MARK}: it wants the image {image}, and no container engine is used here")
    built = _read_dockerfile(directory / "environment")
    issue = _read(directory / "instruction.md").decode(errors="replace")
    extra = {f"{TESTS}/{path}": content for path, content in read_files(directory / "tests").items()}
    if f"{TESTS}/test.sh" not in extra:
        raise RepoTaskError(f"{directory / 'tests'}: wanted test.sh, found none")
    solve = []
    if (directory / "solution" / "solve.sh").is_file():
        extra |= {f"{SOLUTION}/{path}": content for path, content in read_files(directory / "solution").items()}
        solve = [f"{SOLUTION}/solve.sh"]
    root = built.workdir.rstrip("/") or "/app"
    files = {}
    for path, content in built.files.items():
        if path.startswith(f"{root}/"):
            files[path[len(root) + 1 :]] = content
        else:
            extra[path] = content
    timeout_s = min(float(told.get("verifier", {}).get("timeout_sec", TIMEOUT_S)), MAX_TESTS_S)
    variables = {**built.variables, **_read_variables(told.get("verifier", {}).get("env", {}))}
    task = RepoTask(
        name=re.sub(r"[^A-Za-z0-9._-]", "-", directory.resolve().name) or "task", issue=issue, parser="script",
        fail_to_pass=[SCRIPTED], timeout_s=timeout_s, environment=Environment(variables=variables),
    )  # fmt: skip
    return LoadedTask(task, files, directory, root=root, extra=extra, scripts=(f"{TESTS}/test.sh",), solve=tuple(solve))


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except OSError as error:
        raise RepoTaskError(f"{place}: {error.strerror}") from None


def _read_toml(place: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_read(place).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RepoTaskError(f"{place}: wanted TOML, found {error}") from None


def _read_variables(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise RepoTaskError(f"{MARK}: wanted env as a table, found {type(given).__name__}")
    return {str(name): str(value) for name, value in given.items()}


def _read_dockerfile(place: Path) -> _Built:
    if any((place / name).exists() for name in ("docker-compose.yaml", "docker-compose.yml")):
        raise RepoTaskError(f"{place}: docker-compose wants images, and no container engine is used here")
    if not (place / "Dockerfile").is_file():
        raise RepoTaskError(f"{place}: wanted a Dockerfile, found none")
    built = _Built()
    for number, line in _read_lines(_read(place / "Dockerfile").decode(errors="replace")):
        word, _, rest = line.partition(" ")
        said = f"{place.name}/Dockerfile, line {number}: {line[:80]}"
        word, rest = word.upper(), rest.strip()
        if word == "FROM":
            if not _PLAIN.fullmatch(rest.split()[0] if rest else ""):
                raise RepoTaskError(f"{said}: it wants that image, and no container engine is used here")
        elif word == "WORKDIR":
            built.workdir = str(PurePosixPath(built.workdir, rest))
        elif word == "ENV":
            built.variables |= dict(part.split("=", 1) for part in shlex.split(rest) if "=" in part)
        elif word == "COPY" and not rest.startswith("--"):
            _copy(place, shlex.split(rest), built, said)
        elif word not in _SAYS_NOTHING:
            raise RepoTaskError(f"{said}: it wants an image to be built, and no container engine is used here")
    return built


def _read_lines(text: str) -> Sequence[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    held, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        start = start if held else number
        held += line.strip()
        if held.endswith("\\"):
            held = held[:-1]
            continue
        lines.append((start, held))
        held = ""
    return lines


def _copy(place: Path, words: Sequence[str], built: _Built, said: str) -> None:
    if len(words) < 2 or any(".." in PurePosixPath(one).parts or one.startswith("/") for one in words[:-1]):
        raise RepoTaskError(f"{said}: wanted paths within {place.name}, found others")
    *sources, target = words
    base = PurePosixPath(built.workdir, target)
    for source in sources:
        found = place / source
        if found.is_dir():
            inner = {path: content for path, content in read_files(found).items() if path != "Dockerfile"}
            built.files |= {str(base / path): content for path, content in inner.items()}
        elif found.is_file():
            is_directory = target.endswith(("/", ".")) or len(sources) > 1
            built.files[str(base / found.name) if is_directory else str(base)] = found.read_bytes()
        else:
            raise RepoTaskError(f"{said}: wanted {source} beside it, found none")
