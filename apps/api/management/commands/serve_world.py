"""`manage.py serve_world NAME`: a world behind OpenEnv's protocol, for its clients."""

import socket
from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand, CommandError

from apps.base.errors import BadInputError
from apps.worlds.openenv import make_app
from apps.worlds.registry import get_world
from tentalis.core.world_servers import MOST_MESSAGE_BYTES

LOOPBACK = "127.0.0.1"


class Command(BaseCommand):
    help = (
        "Serve a world as OpenEnv does: its clients play episodes, and see what each is worth. Nobody has to sign in."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("world")
        parser.add_argument("--host", default=LOOPBACK)
        parser.add_argument("--port", type=int, default=0, help="0: any; the first line says which")

    def handle(self, *, world: str, host: str, port: int, **options: Any) -> None:
        try:
            app = make_app(get_world(world))
        except BadInputError as error:
            raise CommandError(str(error)) from None
        try:
            listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.stdout.write(f"http://{host}:{listening.getsockname()[1]}")
        self.stdout.flush()
        config = uvicorn.Config(app, log_level="warning", ws_max_size=MOST_MESSAGE_BYTES, timeout_graceful_shutdown=5)
        uvicorn.Server(config).run(sockets=[listening])
