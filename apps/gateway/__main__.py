"""`python -m apps.gateway`: the inference edge as a process of its own. Prints its port when it listens."""

import argparse
import os
import sys


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m apps.gateway", description="The inference edge.")
    parser.add_argument("--host", default=None, help="address to bind; default: TENTALIS_GATEWAY_HOST")
    parser.add_argument("--port", type=int, default=None, help="0: any; default: TENTALIS_GATEWAY_PORT")
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

    host = options.host or settings.TENTALIS["GATEWAY_HOST"]
    port = settings.TENTALIS["GATEWAY_PORT"] if options.port is None else options.port
    try:
        uvloop.run(run(host=host, port=port))
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"gateway: cannot listen on {host}:{port}: {error}\n")
        return 1
    except DatabaseError as error:
        sys.stderr.write(f"gateway: the database cannot be asked: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
