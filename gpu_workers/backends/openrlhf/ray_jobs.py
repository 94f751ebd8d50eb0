"""Ray's Jobs API over HTTP: submit once, look, stop, read what was logged. A few small requests, nothing held open."""

import hashlib
import http.client
import io
import json
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from gpu_workers.backends.errors import TrainingError

Status = Literal["PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"]
TIMEOUT_S = 30.0
PACKAGE = "tentalis_rlhf"
_SHELL_SIGNALS = 128
"""A shell's exit code above this is a signal's number and this."""
_LOST = frozenset({"JOB_SUPERVISOR_ACTOR_DIED", "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"})
_EPOCH = (1980, 1, 1, 0, 0, 0)


class ClusterAwayError(TrainingError):
    """The cluster did not answer, or not as Ray does. Asking again may help."""


class ClusterRefusedError(TrainingError):
    """The cluster answered and would not do it."""


@dataclass(frozen=True)
class Job:
    """One submitted job; `message` is Ray's word on how it ended.

    Args:
        exit_code: of its first process; None while it runs, or where Ray lost it.
        error: Ray's name for what went wrong with the job itself; "".
    """

    status: Status
    message: str = ""
    exit_code: int | None = None
    error: str = ""

    @property
    def has_ended(self) -> bool:
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")

    @property
    def was_lost(self) -> bool:
        """Whether it was killed, or its node went away: nothing it said of itself ended it."""
        was_killed = self.exit_code is not None and (self.exit_code < 0 or self.exit_code > _SHELL_SIGNALS)
        return self.status == "FAILED" and (was_killed or self.error in _LOST)


class _KeepOrigin(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token goes to the address it was given for."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class RayJobs:
    """The jobs of one cluster.

    Args:
        url: of its dashboard.
        token: bearer token where something in front of it asks for one; "" sends none.
    """

    def __init__(self, url: str, *, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener = urllib.request.build_opener(_KeepOrigin)

    def submit(self, name: str, entrypoint: str, *, variables: Mapping[str, str], package: bytes, **sizes: Any) -> None:
        """Start a job of this name; a name that is taken is the job that was submitted before.

        Args:
            variables: environment of all its processes.
            package: zip of what its processes import; it becomes their working directory.
            sizes: entrypoint_num_cpus, entrypoint_num_gpus, metadata.
        Raises:
            ClusterAwayError, ClusterRefusedError: nothing was started.
        """
        body = {
            "submission_id": name,
            "entrypoint": entrypoint,
            "runtime_env": {"working_dir": self._upload(package), "env_vars": dict(variables)},
            **sizes,
        }
        status, answer = self._ask("POST", "/api/jobs/", json.dumps(body).encode())
        if status != 200 and b"already exists" not in answer and self.find(name) is None:
            raise ClusterRefusedError(f"the cluster refused job {name}: {status} {_last_words(answer)}")

    def find(self, name: str) -> Job | None:
        """The job of this name; None where the cluster knows none."""
        status, answer = self._ask("GET", f"/api/jobs/{name}")
        if status == 404:
            return None
        data = self._read(status, answer)
        if data.get("status") not in get_args(Status):
            raise ClusterAwayError(f"job {name} must be {', '.join(get_args(Status))}; found {data.get('status')!r}")
        code = data.get("driver_exit_code")
        return Job(
            cast(Status, data["status"]),
            str(data.get("message") or ""),
            exit_code=code if isinstance(code, int) else None,
            error=str(data.get("error_type") or ""),
        )

    def stop(self, name: str) -> None:
        """Ask a job to end; one that has ended is left alone."""
        status, answer = self._ask("POST", f"/api/jobs/{name}/stop", b"")
        if status != 404:
            self._read(status, answer)

    def read_logs(self, name: str) -> str:
        """Everything the job's driver wrote so far."""
        return str(self._read(*self._ask("GET", f"/api/jobs/{name}/logs")).get("logs") or "")

    def _upload(self, package: bytes) -> str:
        """Put the package where all nodes find it; its name is its content's hash, so that it goes there once."""
        name = f"_ray_pkg_{hashlib.sha256(package).hexdigest()[:32]}.zip"
        path = f"/api/packages/gcs/{name}"
        if self._ask("GET", path)[0] != 200:
            status, answer = self._ask("PUT", path, package, kind="application/octet-stream")
            if status != 200:
                raise ClusterRefusedError(f"the cluster did not take the plug-in: {status} {_last_words(answer)}")
        return f"gcs://{name}"

    def _read(self, status: int, answer: bytes) -> dict[str, Any]:
        try:
            data = json.loads(answer)
        except ValueError:
            data = None
        if status != 200 or not isinstance(data, dict):
            raise ClusterAwayError(f"{self._url} answered {status}: {_last_words(answer)}")
        return data

    def _ask(
        self, verb: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        request = urllib.request.Request(  # noqa: S310  # the address is the operator's
            self._url + path, data=body, method=verb, headers={**self._headers, "Content-Type": kind}
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return int(answer.status), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClusterAwayError(f"the cluster at {self._url} cannot be reached: {error}") from error


def _last_words(answer: bytes) -> str:
    return answer.decode("utf-8", "replace").strip()[-300:]


def pack_plugin() -> bytes:
    """The plug-in as a zip whose bytes follow from its files alone."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((Path(__file__).parent / "plugin").glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"{PACKAGE}/{path.name}", _EPOCH), path.read_bytes())
    return held.getvalue()
