"""Talk with the training box: specs go out by a broker message, letters come home. Nothing of the box is imported.

What it sends home is believed where it is signed with the key of the attempt it speaks of; else it is dropped. Every
process at the box may write there, and whoever came by its password: so what is not signed costs a look at one row and
nothing else, and the audit hears of it once a minute.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.outbox.errors import BrokerAwayError
from apps.training.models import TrainingRun
from tentalis.celery import app
from tentalis.core.contracts import ContractError, TrainSpec
from tentalis.core.letters import HEARTBEAT, RESULT, Letter, draw_key

logger = logging.getLogger(__name__)

TRAIN = "gpu.train"
QUEUE = "gpu"
TINKER_QUEUE = "tinker"
"""Of trainings that only wait for a service, so that the box stays free; its process is there when there is a key."""

LETTER_FILE = "letter.json"
MAX_LETTER_BYTES = 64 * 1024 * 1024
REFUSALS_EVERY_S = 60.0


def choose_queue(backend: str) -> str:
    """`gpu`, or the backend's own."""
    return TINKER_QUEUE if backend == "tinker" and settings.TENTALIS["TINKER_API_KEY"] else QUEUE


def send_spec(spec: TrainSpec) -> None:
    """Put a training job on its queue.

    Raises:
        BrokerAwayError: it could not be sent.
    """
    args = [spec.to_json(), key_of(spec)]
    try:
        app.signature(TRAIN, args=args, queue=choose_queue(spec.backend), immutable=True).apply_async(retry=False)
    except (BrokerError, redis.RedisError, OSError) as error:
        raise BrokerAwayError(f"the broker cannot be reached: {error}") from error


def key_of(spec: TrainSpec) -> str:
    """What this attempt's letters are signed with. Drawn anew each time it is needed, stored nowhere."""
    return draw_key(settings.SECRET_KEY, run_id=spec.run_id, attempt=spec.attempt, spec_hash=spec.content_hash)


class ForgedLetterError(Exception):
    """What lies in the letter box is no letter of the run's present attempt; the message says why not."""


def open_letter(content: bytes) -> Letter:
    """The letter, if it is genuine and about an attempt that is under way.

    Raises:
        ForgedLetterError: it is not.
    """
    if len(content) > MAX_LETTER_BYTES:
        raise ForgedLetterError(f"a letter has at most {MAX_LETTER_BYTES} bytes, found {len(content)}")
    try:
        letter = Letter.from_json(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise ForgedLetterError(f"no letter: {error}") from None
    name = f"letter of run {letter.run_id} attempt {letter.attempt}"
    run = TrainingRun.objects.filter(pk=letter.run_id).only("spec", "attempt").first()
    if run is None:
        raise ForgedLetterError(f"{name}: there is no such run")
    if not is_genuine(letter, run):
        raise ForgedLetterError(f"{name}: it is not signed with that attempt's key")
    if letter.kind == RESULT and not _is_about(letter.body, letter):
        raise ForgedLetterError(f"{name}: its result is of another attempt")
    if letter.kind == HEARTBEAT and not all(_is_number(value) for value in letter.body.values()):
        raise ForgedLetterError(f"{name}: a sign of life tells numbers")
    return letter


def is_genuine(letter: Letter, run: TrainingRun) -> bool:
    """Whether it was written with the key of the run's present attempt."""
    try:
        spec = TrainSpec.from_json(run.spec)
    except ContractError:
        return False
    return (letter.run_id, letter.attempt) == (spec.run_id, spec.attempt) and letter.is_signed_with(key_of(spec))


def find_result(run: TrainingRun) -> dict[str, Any] | None:
    """The result a box left in the artifact store, whose letter may have been lost; None where none is genuine."""
    try:
        content = (path_of(run.spec["output_uri"]) / LETTER_FILE).read_bytes()
        letter = Letter.from_json(json.loads(content))
    except (OSError, ValueError, RecursionError, AdapterBrokenError, KeyError):
        return None
    if letter.kind != RESULT or not is_genuine(letter, run) or not _is_about(letter.body, letter):
        return None
    return dict(letter.body)


def _is_about(body: Mapping[str, Any], letter: Letter) -> bool:
    return (body.get("run_id"), body.get("attempt")) == (letter.run_id, letter.attempt)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class DroppedLetters:
    """Says in the log and in the audit that something was dropped: the first at once, then how many a minute."""

    def __init__(self, *, every_s: float = REFUSALS_EVERY_S) -> None:
        self._every_s = every_s
        self._lock = threading.Lock()
        self._unsaid = 0
        self._said_at = float("-inf")

    def note(self, reason: str, *, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        with self._lock:
            self._unsaid += 1
            if now - self._said_at < self._every_s:
                return
            count, self._unsaid, self._said_at = self._unsaid, 0, now
        logger.warning("dropped %d letters nobody of ours wrote, the last: %s", count, reason)
        payload = {"count": count, "reason": ascii(reason)[1:-1][:300]}
        record(Kind.LETTER_REFUSED, by="box", payload=payload)
