"""`python -m apps.gateway`: the inference edge, in one process or several. Prints its port when it listens."""

import argparse
import os
import socket
import sys


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m apps.gateway", description="The inference edge.")
    parser.add_argument("--host", default=None, help="address to bind; default: TENTALIS_GATEWAY_HOST")
    parser.add_argument("--port", type=int, default=None, help="0: any; default: TENTALIS_GATEWAY_PORT")
    parser.add_argument(
        "--workers", type=int, default=None, help="processes on that port; default: TENTALIS_GATEWAY_WORKERS"
    )
    parser.add_argument("--sockets", type=int, nargs="*", help=argparse.SUPPRESS)  # of one of them: where it listens
    parser.add_argument("--spool", default="", help=argparse.SUPPRESS)  # and what it writes to
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.dev")

    import django

    django.setup()

    import uvloop
    from django.conf import settings
    from django.db.utils import Error as DatabaseError

    from apps.gateway.process import run
    from apps.gateway.sockets import bind
    from apps.gateway.workers import run_workers

    host = options.host or settings.TENTALIS["GATEWAY_HOST"]
    port = settings.TENTALIS["GATEWAY_PORT"] if options.port is None else options.port
    workers = settings.TENTALIS["GATEWAY_WORKERS"] if options.workers is None else options.workers
    try:
        if options.spool:
            uvloop.run(run([socket.socket(fileno=each) for each in options.sockets], spool_name=options.spool))
        elif workers > 1:
            uvloop.run(run_workers(host=host, port=port, count=workers))
        else:
            uvloop.run(run(bind(host, port)))
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"gateway: cannot listen on {host}:{port}: {error}\n")
        return 1
    except DatabaseError as error:
        sys.stderr.write(f"gateway: the database cannot be asked: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
