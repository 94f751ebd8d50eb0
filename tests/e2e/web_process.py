"""The console in a process of its own, which a test can kill: `python -m tests.e2e.web_process PORT`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from django.db import connection

from tests.local_server import find_free_port

PATIENCE_S = 60.0
START_TRIES = 300


class WebProcess:
    """Serves the test's own database at an address that outlives it."""

    def __init__(self) -> None:
        self.port = find_free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns once it answers."""
        url = urlsplit(os.environ["TENTALIS_DATABASE_URL"])._replace(path="/" + connection.settings_dict["NAME"])
        settings = {"TENTALIS_DATABASE_URL": url.geturl(), "DJANGO_SETTINGS_MODULE": "tentalis.settings.test"}
        self._process = subprocess.Popen([sys.executable, "-m", __name__, str(self.port)], env=os.environ | settings)
        for _ in range(START_TRIES):
            if self._answers():
                return
            try:
                code = self._process.wait(timeout=PATIENCE_S / START_TRIES)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"the web process ended with {code} before it answered")
        raise RuntimeError(f"the web process did not answer within {PATIENCE_S:.0f} s")

    def kill(self) -> None:
        """As a crash does: it gets to say nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=PATIENCE_S)
            self._process = None

    def _answers(self) -> bool:
        asked = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            asked.request("GET", "/sign-in/")
            return asked.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            asked.close()


@contextmanager
def run_web() -> Iterator[WebProcess]:
    web = WebProcess()
    web.start()
    try:
        yield web
    finally:
        web.kill()


def main(port: int) -> None:
    import uvicorn
    from channels.routing import ProtocolTypeRouter
    from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler

    from tentalis.asgi import application

    mapping: dict[str, Any] = application.application_mapping
    served = ProtocolTypeRouter(mapping | {"http": ASGIStaticFilesHandler(mapping["http"])})
    uvicorn.run(served, host="127.0.0.1", port=port, log_level="warning", lifespan="off", ws="websockets-sansio")


if __name__ == "__main__":
    main(int(sys.argv[1]))
