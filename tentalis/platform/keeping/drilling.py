"""The drill: a backup brought back into a place of its own, looked at, and thrown away."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tentalis.platform.errors import BackupError
from tentalis.platform.home import Home
from tentalis.platform.keeping.place import Keys
from tentalis.platform.keeping.repository import Repository
from tentalis.platform.keeping.restoring import Restored, restore_backup

Say = Callable[[str], None]
OF_THE_MACHINE = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "DJANGO_SETTINGS_MODULE")


@dataclass(frozen=True)
class Drill:
    """What came of it; `restored` says what was found in what came back."""

    restored: Restored
    seconds: float

    def to_json(self) -> dict[str, Any]:
        found = self.restored
        return {
            "backup": found.manifest.summary(),
            "faults": list(found.faults),
            "checked": {name: value for name, value in found.checked.items() if name != "faults"},
            "seconds": round(self.seconds, 1),
        }


def run_drill(
    repository: Repository,
    keys: Keys,
    environ: Mapping[str, str],
    *,
    backup_id: str = "",
    scratch: Path | None = None,
    say: Say = lambda words: None,
) -> Drill:
    """Bring a backup back with an embedded Postgres, see that it is what was backed up, and throw it away.

    Nothing of it starts: no queue, no webhook, no gateway.

    Args:
        scratch: directory to do it in, with room for all of it; None: the system's temporary one.
    Raises:
        BackupError, RestoreError: it does not come back.
    """
    began = time.monotonic()
    bare = {name: environ[name] for name in OF_THE_MACHINE if name in environ}
    try:
        root = Path(tempfile.mkdtemp(prefix="tentalis-drill-", dir=scratch))
    except OSError as error:
        raise BackupError(f"{scratch or tempfile.gettempdir()} cannot be written: {error.strerror}") from None
    try:
        restored = restore_backup(
            Home(root / "home"),
            bare,
            repository,
            data_key=keys.data,
            secrets_key=keys.secrets,
            backup_id=backup_id,
            say=say,
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return Drill(restored, time.monotonic() - began)
