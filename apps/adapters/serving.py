"""Adapters on the servers of their workers: loaded under immutable names, proved to be what serves, freed when idle;
for a measurement also at a part of their strength.

A name is never given other weights, a directory is never written again, and nothing is loaded in place: vLLM would
change policy in the middle of an answer and keep the prefixes of the old weights.
"""

import hashlib
import json
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from apps.adapters.artifacts import MANIFEST, path_of, read_manifest
from apps.adapters.errors import AdapterNotServableError, WrongAdapterServedError
from apps.adapters.models import Adapter, Deployment, Shadow
from apps.adapters.vllm_compat import require_servable
from apps.adapters.weights import CONFIG, WEIGHTS
from apps.base.errors import TentalisError, log_and_continue
from apps.inference.client import ModelClient
from apps.inference.errors import AdapterNameTakenError, ModelNotServedError, ProviderRefusedError
from apps.inference.provider_kinds import find_kind
from apps.inference.services import client_for, clients_for, open_clients
from apps.workers.models import Worker
from tentalis.outbound.scopes import CancelScope

logger = logging.getLogger(__name__)

LOOK_S = 10.0
LOAD_S = 120.0
"""So long a timetable waits for one server to say what it serves, or to load an adapter; the others wait meanwhile."""

_PROBE = [{"role": "user", "content": "ready?"}]
_PROBE_TOKENS = 8
PIN_KEPT = timedelta(hours=1)
"""So long after its first call a try finds the version that it began with loaded."""
NOT_KEPT = "adapter_not_kept_at_service"
"""What a server says that samples by a service, which has the adapters that were trained there and takes no others."""
IDLE_STATES = (Adapter.State.RETIRED, Adapter.State.QUARANTINED, Adapter.State.REFUSED)


def client_of(worker: Worker) -> ModelClient:
    """The model server that serves a worker; its first address, where it has several."""
    return client_for(worker.provider, worker.project_id)


def load(adapter: Adapter) -> None:
    """Make every address of the server serve an adapter under its immutable name; what does already is left alone.

    Raises:
        AdapterBrokenError: its files are not what their hashes say.
        AdapterNotServableError: the server's kind cannot serve it.
        AdapterNameTakenError: something else has the name.
        ProviderRefusedError: the server found fault with it.
    """
    for client in clients_for(adapter.worker.provider, adapter.worker.project_id):
        _load_on(client, adapter)


def serve(adapter: Adapter) -> None:
    """Load an adapter and prove that it is what answers; once more where a server that was restarted forgot it between.

    Raises:
        AdapterBrokenError, ProviderRefusedError, WrongAdapterServedError: see `load` and `probe`.
    """
    load(adapter)
    try:
        probe(adapter)
    except ModelNotServedError:
        load(adapter)
        probe(adapter)


def _load_on(client: ModelClient, adapter: Adapter) -> None:
    loaded_from = client.find_directories().get(adapter.name)
    if loaded_from is not None and _is_same(adapter, loaded_from):
        return
    kind = find_kind(client.kind)
    if not kind.loads_adapters:
        words = f"{kind.label} loads no adapters: wanted the Tentalis engine or vLLM"
        if client.kind == "tinker":
            words += ", or python -m gpu_workers.backends.tinker, which serves by it what it trained, as kind vllm"
        raise AdapterNotServableError(words)
    directory = path_of(adapter.uri)
    if loaded_from is not None:
        words = f"{client.base_url}: {adapter.name} is taken by what was loaded from {loaded_from}"
        raise AdapterNameTakenError(
            f"{words}: wanted {directory}; a name is never given to other weights", loaded_from=loaded_from
        )
    read_manifest(directory, sha256=adapter.sha256)
    if client.kind == "vllm":
        require_servable(directory)
    client.load_adapter(adapter.name, str(directory))


def _is_same(adapter: Adapter, loaded_from: str) -> bool:
    """Whether a server that knows the name loaded these very weights; one that does not say where from is believed.

    From another directory they are the same where its manifest is: it has the hash of every other file.
    """
    if not loaded_from or loaded_from == str(path_of(adapter.uri)):
        return True
    try:
        content = (Path(loaded_from) / MANIFEST).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content).hexdigest() == adapter.sha256


def probe(adapter: Adapter) -> None:
    """Generate once at each address and see that the adapter asked for is the one that answered.

    What the first probe saw is kept: later ones (after a restart, on another address) must find the same log-probs.

    Raises:
        WrongAdapterServedError: another model answered, or log-probs do not come out again under this one.
    """
    for client in clients_for(adapter.worker.provider, adapter.worker.project_id):
        _probe_on(client, adapter)


def _probe_on(client: ModelClient, adapter: Adapter) -> None:
    tolerance = find_kind(client.kind).probe_tolerance_nats
    sample = client.chat(_PROBE, max_tokens=_PROBE_TOKENS, temperature=0.0, model=adapter.name)[0]
    if sample.served_by != adapter.name:
        raise WrongAdapterServedError(f"asked for {adapter.name}, {sample.served_by} answered")
    row = [*sample.prompt_token_ids, *sample.token_ids]
    scores = client.score([row], model=adapter.name)[0]
    again = scores[-len(sample.token_ids) :]
    gap = max(abs(mine - theirs) for mine, theirs in zip(sample.logprobs, again, strict=True))
    if gap > tolerance:
        raise WrongAdapterServedError(f"{adapter.name}: log-probs recompute {gap:.4f} nats apart")
    if not adapter.fingerprint:
        adapter.fingerprint = {"kind": client.kind, "token_ids": row, "logprobs": scores}
        Adapter.objects.filter(pk=adapter.pk, fingerprint={}).update(fingerprint=adapter.fingerprint)
        return
    known = adapter.fingerprint
    tolerance = max(tolerance, find_kind(known["kind"]).probe_tolerance_nats)
    found = client.score([known["token_ids"]], model=adapter.name)[0]
    gap = max(abs(then - now) for then, now in zip(known["logprobs"], found, strict=True))
    if gap > tolerance:
        raise WrongAdapterServedError(
            f"{client.base_url} serves other weights as {adapter.name}: log-probs are {gap:.4f} nats from those it was "
            f"first seen with, wanted at most {tolerance:g}"
        )


def unload_unused(adapter_id: int) -> None:
    """Free the server of what no request needs any more: refused adapters, and versions before the previous one.

    A server that cannot be asked keeps them loaded; `unload_drained` comes again.
    """
    worker = Adapter.objects.select_related("worker__provider").get(pk=adapter_id).worker
    with log_and_continue(f"adapters of {worker.name} stay loaded", TentalisError):
        _unload_idle(worker)


def unload_drained() -> int:
    """Free servers of what had requests under way when it was to be freed first. Returns how many were."""
    idle = Adapter.objects.filter(state__in=IDLE_STATES, is_anchor=False)
    workers = Worker.objects.filter(pk__in=idle.values("worker"), deployments__isnull=False).distinct()
    count = 0
    for worker in workers.select_related("provider"):
        with log_and_continue(f"adapters of {worker.name} stay loaded", TentalisError), CancelScope(LOOK_S):
            count += _unload_idle(worker)
    return count


def _unload_idle(worker: Worker) -> int:
    """Unload a worker's idle adapters; those with requests under way stay, and the sweep comes again.

    The previous version stays loaded (attempts at work may still call it, and a roll back finds it ready), and so does
    the anchor, for the next gate.
    """
    kept = Deployment.objects.filter(worker=worker).values_list("adapter_id", "previous_id", "canary_id")
    needed = {pk for row in kept for pk in row if pk}
    needed |= _find_measured(worker)
    needed |= set(Shadow.objects.filter(worker=worker, state=Shadow.State.RUNNING).values_list("adapter_id", flat=True))
    idle = Adapter.objects.filter(worker=worker, is_anchor=False, state__in=IDLE_STATES).exclude(pk__in=needed)
    names, count = set(idle.values_list("name", flat=True)), 0
    for client in open_clients(worker.provider) if names else ():
        if loaded := sorted(names & set(client.list_models())):
            busy = client.find_busy_adapters()
            for name in loaded:
                if name not in busy:
                    client.unload_adapter(name)
                    count += 1
    return count


def _find_measured(worker: Worker) -> set[int]:
    """Ids of the adapters that an agent outside is asked to try, or whose answers it is in the middle of."""
    found = set(worker.evaluations.filter(state="waiting", adapter__isnull=False).values_list("adapter_id", flat=True))
    began = worker.tasks.filter(
        state__in=["queued", "working"], updated_at__gte=Now() - PIN_KEPT, evaluation=None
    ).exclude(pins={})
    names = {name for pins in began.values_list("pins", flat=True) for name in pins.values() if name}
    return found | set(Adapter.objects.filter(worker=worker, name__in=names).values_list("pk", flat=True))


def restore_served() -> int:
    """Load every adapter at work that a server does not know (it was restarted), and prove it. Returns how many.

    Raises:
        TentalisError: the last of what was wrong, after all were tried.
    """
    loaded, wrong = 0, None
    deployed = Deployment.objects.filter(Q(adapter__isnull=False) | Q(canary__isnull=False))
    at_work: dict[Worker, set[Adapter | None]] = defaultdict(set)
    for deployment in deployed.select_related("adapter", "canary", "worker__provider"):
        at_work[deployment.worker] |= {deployment.adapter, deployment.canary}
    for measured in Adapter.objects.filter(evaluations__state="waiting").select_related("worker__provider").distinct():
        at_work[measured.worker].add(measured)
    for worker, adapters in at_work.items():
        try:
            with CancelScope(LOOK_S):
                lost = _find_lost(worker, adapters)
        except TentalisError as error:
            logger.warning("nobody knows what serves %s: %s", worker, error)
            wrong = error
            continue
        for adapter in lost:
            try:
                with CancelScope(LOAD_S):
                    serve(adapter)
                loaded += 1
            except TentalisError as error:
                logger.warning("%s is not served again: %s", adapter.name, error)
                wrong = error
    if wrong is not None:
        raise wrong
    return loaded


def _find_lost(worker: Worker, adapters: Iterable[Adapter | None]) -> list[Adapter]:
    served = [set(client.list_models()) for client in clients_for(worker.provider, worker.project_id)]
    return [one for one in adapters if one is not None and any(one.name not in names for names in served)]


def require_forgotten(directory: Path, clients: Iterable[ModelClient]) -> None:
    """Refuse to delete an adapter's directory while a server knows it: vLLM reads it again whenever it was evicted.

    Raises:
        AdapterNameTakenError: which name it is served by, and where.
        ProviderBusyError: a server cannot be asked, so that nobody knows.
    """
    wanted = str(directory.resolve())
    for client in clients:
        for name, loaded_from in client.find_directories().items():
            if loaded_from and str(Path(loaded_from).resolve()) == wanted:
                raise AdapterNameTakenError(
                    f"{directory} must stay: {client.base_url} serves {name} from it", loaded_from=loaded_from
                )


@contextmanager
def serve_scaled(client: ModelClient, adapter: Adapter, scale: float) -> Iterator[str]:
    """Have the server serve the adapter at a share of its strength; gives the name it goes by meanwhile.

    Raises:
        AdapterNotServableError: the server serves what it keeps itself alone, at the strength it was trained at.
        ProviderBusyError, ProviderRefusedError: the server would not.
    """
    name = f"{adapter.name}-x{scale:g}"
    client.unload_adapter(name)  # a gate that was killed left it there, from another directory
    parent = settings.ARTIFACTS / "scales"
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(mkdtemp(prefix=f"{adapter.sha256[:8]}-", dir=parent))
    try:
        _write_scaled(path_of(adapter.uri), directory, scale)
        try:
            client.load_adapter(name, str(directory))
        except ProviderRefusedError as error:
            if error.server_code == NOT_KEPT:
                raise AdapterNotServableError(f"another strength than it was trained at: {error}") from error
            raise
        try:
            yield name
        finally:
            with suppress(TentalisError):  # a server that died forgot it, and the first error is the one to tell
                client.unload_adapter(name)
    finally:
        _remove_scaled(directory, client)


def _remove_scaled(directory: Path, client: ModelClient) -> None:
    """Delete it, unless the server may still read it: then it stays."""
    try:
        require_forgotten(directory, [client])
    except TentalisError as error:
        logger.warning("%s is kept: %s", directory, error)
    else:
        shutil.rmtree(directory, ignore_errors=True)


def _write_scaled(source: Path, directory: Path, scale: float) -> None:
    directory.chmod(0o755)  # the server may run as somebody else
    config = json.loads((source / CONFIG).read_bytes())
    config["lora_alpha"] *= scale
    (directory / CONFIG).write_text(json.dumps(config))
    try:
        os.link(source / WEIGHTS, directory / WEIGHTS)
    except OSError:
        shutil.copyfile(source / WEIGHTS, directory / WEIGHTS)
