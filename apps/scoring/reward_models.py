"""Reward models: recorded with every hash checked, served by the worker's engine, put in use and taken out."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max

from apps.adapters.artifacts import MANIFEST, hash_file, path_of
from apps.adapters.errors import AdapterBrokenError
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import IllegalMoveError
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderRefusedError
from apps.inference.services import client_for
from apps.scoring.answers import Answer
from apps.scoring.models import RewardModel
from apps.workers.models import Worker
from tentalis.core.contracts import HeadManifest

AT_ONCE = 256
"""Answers of one request."""


def record_reward_model(*, worker: Worker, run_id: int, uri: str, sha256: str, by: str) -> RewardModel:
    """Take a trained head into the registry as a candidate, after checking every file's hash.

    Raises:
        AdapterBrokenError: the directory is not what it should be; nothing is written.
    """
    manifest = read_manifest(path_of(uri), sha256=sha256)
    with transaction.atomic():
        Worker.objects.select_for_update(no_key=True).get(pk=worker.pk)
        last = RewardModel.objects.filter(worker=worker).aggregate(last=Max("version"))["last"] or 0
        model = RewardModel.objects.create(
            project_id=worker.project_id,
            worker=worker,
            name=f"{worker.project.slug}.{worker.name}.prm@v{last + 1}-{sha256[:8]}",
            version=last + 1,
            run_id=run_id,
            uri=uri,
            sha256=sha256,
            manifest=manifest.to_json(),
        )
        record(Kind.REWARD_MODEL_RECORDED, subject=model, by=by, payload={"run": run_id, "sha256": sha256})
    return model


def read_manifest(directory: Path, *, sha256: str) -> HeadManifest:
    """Raises AdapterBrokenError unless manifest and files are what their hashes say."""
    try:
        content = (directory / MANIFEST).read_bytes()
        if (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise AdapterBrokenError(f"the manifest must hash to {sha256}, found {found}")
        manifest = HeadManifest.from_json(json.loads(content))
        for name, entry in manifest.files.items():
            path = directory / name
            if Path(name).name != name or path.is_symlink() or hash_file(path) != entry["sha256"]:
                raise AdapterBrokenError(f"file {name!r} is not what the manifest says")
    except OSError as error:
        raise AdapterBrokenError(f"the reward model cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise AdapterBrokenError(f"the reward model's manifest cannot be read: {error}") from error
    return manifest


def find_live(worker: Worker) -> RewardModel | None:
    """The reward model that scores this worker's steps, if one does."""
    live = RewardModel.objects.filter(worker=worker, state=RewardModel.State.LIVE)
    return live.select_related("worker__provider").first()


def score_answers(model: RewardModel, answers: Sequence[Answer]) -> list[list[float]]:
    """The probability that each step is good, in [0, 1]; an engine that was restarted is given the model again.

    Raises:
        ProviderBusyError, ProviderRefusedError, ProviderAnswerError: the engine cannot be asked.
        AdapterBrokenError: the model's files are not what their hashes say.
    """
    client = client_for(model.worker.provider, model.project_id)
    rows: list[list[float]] = []
    for start in range(0, len(answers), AT_ONCE):
        items = [answer.to_json() for answer in answers[start : start + AT_ONCE]]
        rows += _score(client, model, items)
    return rows


def load(model: RewardModel, client: ModelClient | None = None) -> None:
    """Have the worker's engine serve the model; nothing happens where it does already."""
    directory = path_of(model.uri)
    read_manifest(directory, sha256=model.sha256)
    (client or client_for(model.worker.provider, model.project_id)).load_reward_head(model.name, str(directory))


def _score(client: ModelClient, model: RewardModel, items: Sequence[dict[str, Any]]) -> list[list[float]]:
    try:
        return client.score_steps(items, head=model.name)
    except ProviderRefusedError:
        load(model, client)
        return client.score_steps(items, head=model.name)


def put_in_use(model: RewardModel, *, reason: str, measured: dict[str, Any], by: str) -> None:
    """Let a model score from now on, in place of the one before, in the running transaction.

    Raises:
        IllegalMoveError: it is barred.
    """
    if model.barred:
        raise IllegalMoveError(f"{model.name} cannot be put in use: {model.barred}")
    Worker.objects.select_for_update(no_key=True).get(pk=model.worker_id)
    before = RewardModel.objects.filter(worker=model.worker_id, state=RewardModel.State.LIVE).exclude(pk=model.pk)
    for one in before:
        move(one, RewardModel.State.RETIRED, by=by, payload={"for": model.name})
    payload = {"words": reason, "against": measured.get("against", "")}
    move(model, RewardModel.State.LIVE, by=by, payload=payload, words=reason[:500], measured=measured)


def refuse(model: RewardModel, *, reason: str, measured: dict[str, Any], by: str) -> None:
    """Keep a candidate out, with the reason."""
    move(model, RewardModel.State.REFUSED, by=by, payload={"words": reason}, words=reason[:500], measured=measured)


def bar(models: Iterable[RewardModel], *, reason: str, by: str) -> list[RewardModel]:
    """Keep models from ever scoring again, in the running transaction; one in use is taken out of it at once.

    Returns:
        Those that were not barred before.
    """
    rows = RewardModel.objects.select_for_update().filter(pk__in=[one.pk for one in models], barred="").order_by("pk")
    barred = list(rows.exclude(state=RewardModel.State.REFUSED))
    for model in barred:
        if model.state == RewardModel.State.LIVE:
            retire(model, by=by)
        elif model.state == RewardModel.State.CANDIDATE:
            refuse(model, reason=f"refused: {reason}", measured={}, by=by)
        RewardModel.objects.filter(pk=model.pk).update(barred=reason)
        record(Kind.REWARD_MODEL_BARRED, subject=model, by=by, payload={"words": reason})
    return barred


def retire(model: RewardModel, *, by: str) -> None:
    """Take the live model out of use; its steps are then judged as before there was one.

    Raises:
        IllegalMoveError: it is not in use.
    """
    if model.state != RewardModel.State.LIVE:
        raise IllegalMoveError(f"{model.name} cannot be retired: wanted live, found {model.state}")
    move(model, RewardModel.State.RETIRED, by=by, payload={"for": ""})
