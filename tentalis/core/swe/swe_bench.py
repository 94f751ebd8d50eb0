"""Rows of SWE-bench's data sets, one JSON object a line, as tasks.

A row names a repository and a commit; the packages that its tests want are built into an image by SWE-bench's own
harness. So whoever imports a row gives a clone, and the wheels.
Source: github.com/SWE-bench/SWE-bench, swebench/harness/constants and test_spec (names of fields, django's directives).
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tentalis.core.swe.patches import PatchError, parse_patch
from tentalis.core.swe.repo_tasks import Environment, RepoTask, RepoTaskError

FIELDS: Final = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch")
LISTS: Final = ("FAIL_TO_PASS", "PASS_TO_PASS")
DJANGO: Final = "django/django"
_DJANGO_COMMAND: Final = ("tests/runtests.py", "--verbosity", "0", "--settings=test_sqlite", "--parallel", "1")


def read_row(row: Any, *, environment: Environment, parser: str = "") -> RepoTask:
    """A row as a task whose repository is a clone beside it.

    Args:
        parser: "": as the repository's tests are known to be run: django's own way, else by pytest.
    Raises:
        RepoTaskError: it is none: the field, what was wanted, what was found.
    """
    if not isinstance(row, Mapping):
        raise RepoTaskError(f"wanted a row of SWE-bench as an object, found {type(row).__name__}")
    if missing := [name for name in (*FIELDS, *LISTS) if name not in row]:
        raise RepoTaskError(f"wanted a row of SWE-bench with {', '.join((*FIELDS, *LISTS))}, found no {missing[0]}")
    for name in FIELDS:
        if not isinstance(row[name], str):
            raise RepoTaskError(f"{name}: wanted a text, found {type(row[name]).__name__}")
    parser = parser or ("django" if row["repo"] == DJANGO else "pytest")
    return RepoTask(
        name=row["instance_id"],
        issue=row["problem_statement"],
        base_commit=row["base_commit"],
        test_patch=row["test_patch"],
        gold_patch=row["patch"],
        fail_to_pass=_read_list(row, "FAIL_TO_PASS"),
        pass_to_pass=_read_list(row, "PASS_TO_PASS"),
        parser=parser,
        command=[*_DJANGO_COMMAND, *_find_labels(row["test_patch"])] if parser == "django" else [],
        environment=environment,
        timeout_s=1_800.0,
    )


def say_needs(row: Mapping[str, Any]) -> str:
    """What a row wants that it does not bring along."""
    image = row.get("image_name") or row.get("docker_image")
    built = f"the image {image}" if image else "an image that SWE-bench's harness builds"
    return (
        f"{row.get('instance_id')}: wants a clone of {row.get('repo')} with commit {str(row.get('base_commit'))[:12]}, "
        f"and its packages as wheels; the original runs in {built}, which takes a container engine"
    )


def _read_list(row: Mapping[str, Any], name: str) -> list[str]:
    """It is a list, or, as the data sets were published at first, a list written as JSON."""
    value = row[name]
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise RepoTaskError(f"{name}: wanted a list of tests, found {value!r:.80}")
    return list(dict.fromkeys(found))


def _find_labels(test_patch: str) -> list[str]:
    """The modules of django's tests that a patch touches, as its script wants them."""
    try:
        paths = [path for one in parse_patch(test_patch) for path in one.paths if path.endswith(".py")]
    except PatchError as error:
        raise RepoTaskError(f"test_patch: {error}") from None
    inner = [path.removeprefix("tests/") for path in paths]
    return list(dict.fromkeys(path.removesuffix(".py").replace("/", ".") for path in inner))
