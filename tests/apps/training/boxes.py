"""A training box that writes letters, for tests without one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apps.training.box import LETTER_FILE, key_of
from apps.training.models import TrainingRun
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TrainSpec
from tentalis.core.letters import Kind, Letter


def send_out(run: TrainingRun, output: Path, *, attempt: int = 1) -> TrainSpec:
    """Make a run one that a box was sent, with a whole spec."""
    spec = TrainSpec(
        run_id=run.pk,
        attempt=attempt,
        worker="echo",
        base_model="desk",
        parent_adapter_uri=None,
        parent_sha256=None,
        policy_version=0,
        rollouts_uri=(output / "rollouts.jsonl").as_uri(),
        rollouts_sha256="2" * 64,
        recipe=run.recipe,
        seed=run.seed,
        output_uri=output.as_uri(),
    )
    TrainingRun.objects.filter(pk=run.pk).update(state="running", attempt=attempt, spec=spec.to_json(), last_letter=0)
    run.refresh_from_db()
    return spec


def write_letter(spec: TrainSpec, kind: Kind, body: Mapping[str, Any], *, number: int = 1) -> bytes:
    """What the box of this attempt would send."""
    letter = Letter.write(kind, body, key=key_of(spec), run_id=spec.run_id, attempt=spec.attempt, number=number)
    return canonical_json(letter.to_json())


def leave_result(spec: TrainSpec, body: Mapping[str, Any], output: Path) -> None:
    """A result in the artifact store whose message was lost."""
    (output / LETTER_FILE).write_bytes(write_letter(spec, "result", body))
