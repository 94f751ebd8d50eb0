"""What a worker's fields must hold, said field by field."""

import re
from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.core.exceptions import ValidationError

from apps.base.errors import ConflictError
from apps.inference.grants import is_granted, say_not_granted, usable
from apps.inference.models import Provider
from apps.workers.kept import say_not_kept
from apps.workers.kinds import KINDS, find_kind
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.registry import find_world
from tentalis.core.checked import FieldError
from tentalis.core.supervision import read_supervision

MOST_FALLBACKS: Final = 5
MOST_BATCH_TASKS: Final = 10_000
_AGENT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def find_errors(worker: Worker) -> dict[str, list[str]]:
    """Field -> what was wanted and found; {} for a worker that can work."""
    errors: dict[str, list[str]] = {}
    try:
        worker.clean_fields()
    except ValidationError as error:
        errors |= {
            name: [f"{words} (found {getattr(worker, name)!r})" for words in messages]
            for name, messages in error.message_dict.items()
        }
    if worker.kind not in KINDS:
        errors["kind"] = [KINDS.refuse(worker.kind)]
        return errors
    if worker.user_batch_tasks is not None and not 1 <= worker.user_batch_tasks <= MOST_BATCH_TASKS:
        wanted = f"must be a whole number from 1 to {MOST_BATCH_TASKS} or empty"
        errors["user_batch_tasks"] = [f"{wanted}; found {worker.user_batch_tasks!r}"]
    if complaint := _check_provider(worker):
        errors["provider"] = [complaint]
    errors |= _check_agent(worker)
    if complaint := say_not_kept(worker):
        errors["base_model"] = [complaint]
    if (worker.kind == Worker.Kind.CHAT or find_kind(worker.kind).flow) and not worker.base_model:
        words = f"a {worker.kind} worker needs a model's name, and its provider has no default"
        errors.setdefault("base_model", [words])
    if complaints := _check_sampling(worker):
        errors["sampling"] = complaints
    if complaint := _check_fallbacks(worker):
        errors["fallbacks"] = [complaint]
    if complaint := _check_supervision(worker):
        errors["supervision"] = [complaint]
    for name, words in _check_sharing(worker).items():
        errors.setdefault(name, [words])
    return errors


def find_environment_error(worker: Worker, environment: str) -> str:
    """Why this worker cannot work in an environment; "" where it can."""
    kind = find_kind(worker.kind)
    if kind.environment and environment != kind.environment:
        home = find_world(kind.environment).label
        return f"{worker.name} only knows {home} ({kind.environment}), found environment {environment!r}"
    world = find_world(environment)
    if world.has_turns and not kind.takes_turns and kind.name != Worker.Kind.OUTSIDE:
        return (
            f"{worker.name} is of kind {kind.name}, which takes no turns, and {world.label} ({environment}) has tools"
        )
    refusal = world.refuse_agent(kind)
    return f"{worker.name} {refusal}" if refusal else ""


def require_own_line(worker: Worker, what: str) -> None:
    """Raises ConflictError where what is asked of a worker is another's to do: its line of adapters is theirs."""
    if worker.learns_with is not None:
        other = worker.learns_with.name
        raise ConflictError(f"{worker.name} learns with {other}, and its adapters are that one's: {what} {other}")


def say_learners(learners: Iterable[Worker]) -> str:
    """Why a worker must keep its own line."""
    return f"others learn with it ({', '.join(one.name for one in learners)}): end that first"


def _check_sharing(worker: Worker) -> dict[str, str]:
    """Whether it may learn with whom it does, and whether those who learn with it still may."""
    learners = list(worker.learners.select_related("provider").order_by("name")) if worker.pk else []
    other = worker.learns_with
    if other is None:
        strangers = [one.name for one in learners if _model_of(one) != _model_of(worker)]
        if not strangers:
            return {}
        return {"base_model": f"wanted the model and the server of those who learn with it ({', '.join(strangers)})"}
    errors = {}
    if other.pk == worker.pk:
        errors["learns_with"] = "wanted another worker, found itself"
    elif other.project_id != worker.project_id:
        errors["learns_with"] = f"must be one of the project's workers, found number {other.pk}"
    elif other.learns_with is not None:
        errors["learns_with"] = f"{other.name} learns with {other.learns_with.name}: choose that one"
    elif learners:
        errors["learns_with"] = say_learners(learners)
    elif not find_base_model(worker):
        errors["learns_with"] = f"{worker.name} has no model that could learn"
    elif _model_of(worker) != _model_of(other):
        errors["learns_with"] = (
            f"wanted the model of {other.name}, {_name_model(other)}, found {_name_model(worker)}: one adapter fits one"
        )
    if worker.adapters_per != Worker.AdaptersPer.WORKER:
        errors["adapters_per"] = f"{other.name} says it for all who learn with it; found {worker.adapters_per!r}"
    if worker.user_batch_tasks is not None:
        errors["user_batch_tasks"] = f"{other.name} says it for all who learn with it; found {worker.user_batch_tasks}"
    return errors


def _model_of(worker: Worker) -> tuple[int | None, str]:
    return worker.provider_id, find_base_model(worker)


def _name_model(worker: Worker) -> str:
    server = worker.provider.name if worker.provider else "the installation's own server"
    return f"{find_base_model(worker) or 'none'!r} of {server}"


def _check_provider(worker: Worker) -> str:
    provider = worker.provider
    if provider is None:
        is_bare = worker.kind == Worker.Kind.CHAT and not worker.base_directory
        return "a chat worker needs a model server, or a model kept on this machine; found none" if is_bare else ""
    if not find_kind(worker.kind).asks_model:
        return f"a worker of kind {worker.kind} asks no model, found {provider.name!r}"
    if provider.project_id not in {None, worker.project_id}:
        return f"must be one of the project's model servers, found number {provider.pk}"
    return _check_grant(provider, worker)


def _check_grant(provider: Provider, worker: Worker) -> str:
    return "" if is_granted(provider, worker.project_id) else say_not_granted(provider.name, worker.project.slug)


def _check_agent(worker: Worker) -> dict[str, list[str]]:
    server = worker.agent_server
    if worker.kind != Worker.Kind.OPENCLAW:
        given = {"agent_server": server is not None, "agent_id": bool(worker.agent_id)}
        return {name: [f"only an openclaw worker has one, found kind {worker.kind}"] for name in given if given[name]}
    errors: dict[str, list[str]] = {}
    if server is None:
        errors["agent_server"] = ["an openclaw worker needs the gateway of an OpenClaw, found none"]
    elif server.project_id not in {None, worker.project_id}:
        errors["agent_server"] = [f"must be one of the project's servers, found number {server.pk}"]
    elif complaint := _check_grant(server, worker):
        errors["agent_server"] = [complaint]
    elif server == worker.provider:
        errors["agent_server"] = [f"its model cannot be served by the agent itself, found {server.name!r} for both"]
    if worker.agent_id and not _AGENT_ID.fullmatch(worker.agent_id):
        errors["agent_id"] = [f"must be letters, digits, - and _; found {worker.agent_id!r}"]
    return errors


def _check_supervision(worker: Worker) -> str:
    try:
        policy = read_supervision(worker.supervision)
    except FieldError as error:
        return str(error)
    if policy is None or worker.kind == Worker.Kind.OUTSIDE:
        return ""
    if not find_kind(worker.kind).takes_turns:
        return f"a worker of kind {worker.kind} answers in one go: wanted an outside one, or a kind that takes turns"
    if policy.messages or policy.answers:
        return f"of a worker of kind {worker.kind} only calls of tools wait: wanted tools, without messages and answers"
    return ""


def _check_fallbacks(worker: Worker) -> str:
    """Whether callers could ask for each of them by that name."""
    found = worker.fallbacks
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):
        return f"wanted a list of names, found {found!r:.100}"
    if len(found) > MOST_FALLBACKS or len(set(found)) < len(found):
        return f"wanted at most {MOST_FALLBACKS}, each once; found {', '.join(found):.200}"
    if found and not find_kind(worker.kind).asks_model:
        return f"a worker of kind {worker.kind} asks no model, found {', '.join(found):.200}"
    for name in found:
        server, slash, model = name.partition("/")
        if slash and model:
            named = Provider.objects.filter(usable([worker.project]), name=server, is_active=True)
            if server == settings.TENTALIS["INFERENCE_BACKEND"] or named.exists():
                continue
            return f"{name:.200}: the project has no model server {server:.64}"
        if name == worker.name:
            return f"{name}: a worker is no fallback of its own"
        if not worker.project.workers.filter(name=name, is_active=True).exclude(kind=Worker.Kind.ECHO).exists():
            return f"{name:.200}: wanted server/model, or another worker of the project"
    return ""


def _check_sampling(worker: Worker) -> list[str]:
    if not isinstance(worker.sampling, dict):
        return [f"must be an object, found {type(worker.sampling).__name__}"]
    ranges = find_kind(worker.kind).sampling
    words = []
    for name, value in worker.sampling.items():
        if name not in ranges:
            words.append(f"may hold {', '.join(ranges) or 'nothing'} for a {worker.kind} worker; found {name!r}")
        elif not ranges[name].accepts(value):
            words.append(f"{name} must be {ranges[name].wanted}, found {value!r}")
    return words
