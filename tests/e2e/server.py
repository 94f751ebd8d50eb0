"""The project's real ASGI application behind a real socket, in a thread of the test's own process."""

import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from asgiref.sync import SyncToAsync
from channels.routing import ProtocolTypeRouter
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.db import connections
from django.http import FileResponse, HttpRequest, HttpResponse


class KeptStaticFiles(ASGIStaticFilesHandler):
    """Static files straight from their sources; a browser asks for each once, as it does where a hash names them."""

    def serve(self, request: HttpRequest) -> HttpResponse | FileResponse:
        answer = super().serve(request)
        answer["Cache-Control"] = "max-age=3600, immutable"
        return answer


@contextmanager
def serve() -> Iterator[str]:
    """Yields the address."""
    from tentalis.asgi import application

    mapping = application.application_mapping | {"http": KeptStaticFiles(application.application_mapping["http"])}
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
        # what a closing socket was still reading runs on in asgiref's thread; its connection would block the next flush
        SyncToAsync.single_thread_executor.submit(connections.close_all).result(timeout=20)
        connections.close_all()
        gc.collect()  # connections of threads that are gone close when their wrappers, which are cycles, are collected
        if thread.is_alive():
            raise RuntimeError("the web under test did not stop within 20 s")
