"""The project's real ASGI application behind a real socket, in a thread of the test's own process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from channels.routing import ProtocolTypeRouter
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.db import connection, connections


@contextmanager
def serve() -> Iterator[str]:
    """Yields the address; static files come straight from their sources."""
    from tentalis.asgi import application

    mapping = application.application_mapping | {
        "http": ASGIStaticFilesHandler(application.application_mapping["http"])
    }
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(ProtocolTypeRouter(mapping), log_level="warning", lifespan="off", ws="websockets-sansio")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="web under test")
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        bound.close()
        connections.close_all()
        end_other_sessions()
        if thread.is_alive():
            raise RuntimeError("the web under test did not stop within 20 s")


def end_other_sessions() -> None:
    """A page left in the middle can leave a thread's session behind, which would block the next flush."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    connection.close()
