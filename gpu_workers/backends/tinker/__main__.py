"""`python -m gpu_workers.backends.tinker --base DIR --port 8300`: a model at Tinker as a worker's model server."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from gpu_workers.backends.errors import TrainingError
from gpu_workers.backends.tinker import require_client
from gpu_workers.backends.tinker.options import TinkerOptions
from gpu_workers.engine.__main__ import serve
from gpu_workers.engine.errors import EngineError
from tentalis.env import EnvironmentVariableError, read_environment


class Masking(logging.Formatter):
    """Lines without the service's key."""

    def __init__(self, key: str) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._key = key

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace(self._key, "…")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.backends.tinker", description=__doc__)
    parser.add_argument("--base", required=True, type=Path, help="directory of the model's tokenizer and config.json")
    parser.add_argument("--model", help="the service's name of it; default: model of TENTALIS_TINKER_OPTIONS")
    parser.add_argument("--served-name", help="what requests call the base; default: the directory's name")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; the routes ask nobody for a key")
    parser.add_argument("--port", type=int, default=8300)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes addresses
    base = options.base.expanduser().resolve()
    try:
        require_client()
        from gpu_workers.backends.tinker.engine_adapter import TinkerEngine
        from gpu_workers.backends.tinker.service import find_service, open_client

        model = options.model or TinkerOptions.from_json(read_environment()["TINKER_OPTIONS"]).model
        address = find_service()
        handler.setFormatter(Masking(address.key))  # the client writes down what the service says, whatever that is
        client = open_client(address, name=f"serving {model}")
        engine = TinkerEngine(client, address, name=options.served_name or base.name, model=model, base=base)
        asyncio.run(serve(engine, host=options.host, port=options.port))
    except (TrainingError, EngineError, EnvironmentVariableError) as error:
        sys.stderr.write(f"tinker: {error}\n")
        return 1
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"tinker: cannot listen on {options.host}:{options.port}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
