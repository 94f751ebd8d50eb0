"""From the model a caller names to the server that is asked, and by which name."""

from typing import NamedTuple

from apps.gateway.errors import RefusalError, refuse_model
from apps.gateway.pins import Pin
from apps.gateway.sessions import Place
from apps.gateway.tables import Backend, EnsembleRoute, Served, Tables, WorkerRoute
from apps.inference.grants import WHO_GRANTS, NotGrantedError
from apps.workers.models import ENSEMBLE
from tentalis.core.learning.canary_routing import is_canary
from tentalis.core.limits import Limits

MOST_ROUTES = 10_000
"""That are remembered: any name may be asked for behind a provider's."""


class Route(NamedTuple):
    """Where one request goes; it holds until its answer ends.

    Args:
        worker: name; "" where a provider's model was asked for.
        is_managed: the platform chose the adapter, so that it is ours to find another if the server lost it.
        allowance: what the project's grant for the server allows.
        fallbacks: names of models to ask where this one cannot be had, in order.
    """

    backend: Backend
    served: Served
    worker: str
    is_managed: bool
    allowance: Limits = Limits()
    fallbacks: tuple[str, ...] = ()


def find_ensemble(model: str, *, project: int, tables: Tables) -> EnsembleRoute | None:
    """Who is asked together; None where `model` names no ensemble. Raises RefusalError where none of them serves."""
    if not model.startswith(f"{ENSEMBLE}/") or (found := tables.ensembles.get((project, model))) is None:
        return None
    if not found.members:
        message = f"no member of {model} serves: each is switched off, or its model server is"
        raise RefusalError(message, status=404, code="model_not_found", param="model")
    return found


def find_route(model: str, place: Place, *, project: int, tables: Tables) -> Route:
    """Resolve `model`: a worker, one of its adapters, `provider/model`.

    Raises:
        RefusalError: 404: there is no such model in the project, or it is another person's own adapter; 403: its
            server is shared, and not granted to the project.
    """
    known: Route | None = tables.routes.get((project, model)) if place.pin is None else None
    if known is not None:
        return known
    route = _keep_to(place.pin, model, project=project, tables=tables) if place.pin is not None else None
    route = route or _resolve(model, place, project=project, tables=tables)
    if not tables.is_granted(project, route.backend):
        message = f"model server {route.backend.name} is not granted to this project: {WHO_GRANTS}"
        raise RefusalError(message, status=403, code=NotGrantedError.code, param="model")
    allowance = tables.grants.get((project, route.backend.key))
    route = route if allowance is None else route._replace(allowance=allowance)
    is_kept = place.pin is None and len(tables.routes) < MOST_ROUTES
    if is_kept and _is_everybodys(model, route, project=project, tables=tables):
        tables.routes[project, model] = route
    return route


def _is_everybodys(model: str, route: Route, *, project: int, tables: Tables) -> bool:
    """Whether whoever asks in the project is given this route: nobody has an adapter of their own, no canary runs."""
    worker = tables.workers.get((project, model))
    is_one = worker is None or not (worker.people or worker.canary)
    return is_one and not {route.served.name, route.served.adapter} & tables.private.keys()


def _keep_to(pin: Pin, model: str, *, project: int, tables: Tables) -> Route | None:
    """Where a try's calls go that keeps to one model; None where this one is no matter of it: another worker's, or
    another server's, that the agent asks beside its own.

    Raises:
        RefusalError: 409: what the try began with serves no more.
    """
    worker = tables.workers.get((project, pin.worker))
    if worker is None or (model != pin.worker and not (pin.is_measured and _is_own(model, worker, project, tables))):
        return None
    served = worker.base
    if pin.adapter:
        known = tables.adapters.get((project, pin.adapter))
        if known is None:
            message = f"{pin.adapter}, which this try began with, serves no more: begin another try"
            raise RefusalError(message, status=409, code="version_gone", param="X-Tentalis-Task")
        served = known[1]
    fallbacks = () if pin.is_measured else worker.fallbacks
    return Route(worker.backend, served, worker.name, is_managed=True, fallbacks=fallbacks)


def _is_own(model: str, worker: WorkerRoute, project: int, tables: Tables) -> bool:
    """Whether a name that a harness sends stands for the worker it thinks with: no other worker's, and no model of
    another server."""
    if (pinned := tables.adapters.get((project, model))) is not None:
        return pinned[0].name == worker.name
    if (project, model) in tables.workers:
        return model == worker.name
    prefix, slash, rest = model.partition("/")
    other = tables.find_backend(project, prefix) if slash and rest else None
    return other is None or other.key == worker.backend.key


def _resolve(model: str, place: Place, *, project: int, tables: Tables) -> Route:
    if (worker := tables.workers.get((project, model))) is not None:
        served = _choose(worker, place)
        return Route(worker.backend, served, worker.name, is_managed=True, fallbacks=worker.fallbacks)
    if (pinned := tables.adapters.get((project, model))) is not None:
        _require_own(pinned[1].name, model, place, tables)
        return Route(pinned[0].backend, pinned[1], pinned[0].name, is_managed=True)
    prefix, slash, rest = model.partition("/")
    if slash and prefix == ENSEMBLE:
        raise _refuse_ensemble(model, tables.ensembles.get((project, model)))
    if slash and rest and (backend := tables.find_backend(project, prefix)) is not None:
        if tables.owners.get(rest, project) != project:
            raise refuse_model(model)
        _require_own(rest, model, place, tables)
        return Route(backend, name_served(rest, project=project, tables=tables), "", is_managed=False)
    raise refuse_model(model)


def _refuse_ensemble(model: str, known: EnsembleRoute | None) -> RefusalError:
    """Why an ensemble is not asked as a model is."""
    if known is None:
        return RefusalError(
            f"no ensemble {model.partition('/')[2][:200]!r} here; GET /v1/models lists those there are",
            status=404,
            code="model_not_found",
            param="model",
        )
    members = ", ".join(known.members)
    message = f"{model} answers conversations and completions alone: for this name one of its members ({members})"
    return RefusalError(message, status=400, code="not_supported", param="model")


def name_served(name: str, *, project: int, tables: Tables) -> Served:
    """What a server says it answered with: an adapter of the project, or else a base model."""
    pinned = tables.adapters.get((project, name))
    return pinned[1] if pinned is not None else Served(name)


def _require_own(name: str, model: str, place: Place, tables: Tables) -> None:
    """Raises RefusalError where a name is that of an adapter which somebody else taught."""
    if tables.private.get(name, place.end_user) != place.end_user:
        raise refuse_model(model)


def _choose(worker: WorkerRoute, place: Place) -> Served:
    """What serves: the person's own adapter where there is one, else the worker's.

    Or the canary for its share of the sessions; of the tasks, where one is named, as for attempts.
    """
    if place.end_user and (own := worker.people.get(place.end_user)) is not None:
        return own
    if worker.canary is None or (place.task is not None and place.task <= worker.canary_after_task):
        return worker.deployed
    key = f"{worker.canary_key}:{place.session if place.task is None else place.task}"
    return worker.canary if is_canary(key, percent=worker.canary_percent) else worker.deployed
