"""The routes that the resolver knows, in the words of permissions.toml."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from apps.api.views.docs import UnknownPathView

PREFIX = "api/v1/"
BRIDGE = "bridge/"
PLACEHOLDERS = {
    "projects": "{slug}", "users": "{user}", "members": "{member}", "invitations": "{invitation}",
    "tokens": "{token}", "providers": "{provider}", "provider-grants": "{grant}", "prices": "{price}",
    "workers": "{worker}", "ensembles": "{ensemble}", "tasks": "{task}",
    "attempts": "{attempt}", "episodes": "{episode}",
    "reviews": "{review}", "feedback": "{feedback}", "rollouts": "{rollout}",
    "proposals": "{proposal}", "gold": "{gold}",
    "manager-runs": "{manager_run}", "reward-models": "{reward_model}",
    "batches": "{batch}", "runs": "{run}", "adapters": "{adapter}", "dead-letters": "{segment}",
    "sessions": "{session}", "exchanges": "{exchange}", "turns": "{turn}", "skills": "{skill}", "checks": "{check}",
    "tasksets": "{taskset}", "datasets": "{dataset}",
    "benchmarks": "{benchmark}",
    "courses": "{course}",
    "evaluations": "{evaluation}",
    "regradings": "{regrading}", "judge-probes": "{judge_probe}",
    "rewards": "{secret}", "repo-tasks": "{repo_task}", "repo-task-admissions": "{admission}", "uploads": "{upload}",
    "experiments": "{experiment}", "webhooks": "{webhook}", "deliveries": "{delivery}",
}  # fmt: skip
TABLE = tomllib.loads((Path(__file__).parent / "permissions.toml").read_text(encoding="utf-8"))


def walk(resolver: Any, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for entry in resolver.url_patterns:
        path = prefix + str(entry.pattern).removeprefix("^")
        if isinstance(entry, URLResolver):
            yield from walk(entry, path)
        else:
            yield path, entry


def list_api_routes() -> list[str]:
    """`VERB path` of every REST route: `GET tasks/{task}`."""
    routes = []
    for path, entry in walk(get_resolver()):
        if path.startswith((PREFIX, BRIDGE)) and getattr(entry.callback, "cls", None) is not UnknownPathView:
            routes += [f"{verb} {_name(path)}" for verb in _list_verbs(entry)]
    return sorted(routes)


def list_other_paths() -> list[str]:
    """Patterns outside the REST API and Django's admin."""
    return [path for path, _ in walk(get_resolver()) if not path.startswith((PREFIX, BRIDGE, "admin/"))]


def find_unclassified(routes: list[str]) -> list[str]:
    return sorted(set(routes) ^ set(TABLE["routes"]))


def _name(path: str) -> str:
    path = path.removeprefix(PREFIX).replace("^", "").replace("$", "")
    resource = "tasks" if path.startswith(BRIDGE) else path.split("/")[0]
    path = path.replace("(?P<item_try>[0-9]{1,18})", "{item_try}").replace("(?P<item>[0-9]{1,18})", "{item}")
    return re.sub(r"\(\?P<\w+>.*?\)", PLACEHOLDERS.get(resource, "?"), path)


def _list_verbs(entry: URLPattern) -> list[str]:
    actions = getattr(entry.callback, "actions", None)
    if actions is None:
        view: Any = getattr(entry.callback, "cls", None)
        return [verb.upper() for verb in ("get", "post", "patch", "delete") if hasattr(view, verb)]
    return [verb.upper() for verb in actions if verb != "head"]
