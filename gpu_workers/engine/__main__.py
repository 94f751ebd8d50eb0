"""`python -m gpu_workers.engine --model desk --port 8300`: serve a model until SIGTERM or Ctrl-C."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from gpu_workers.engine.bases import Bases, count_bytes
from gpu_workers.engine.engine import BUILT_IN, DEVICES, PREFIX_BYTES, Engine
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.engine.products import PRECISIONS
from gpu_workers.engine.served import Served
from gpu_workers.engine.server import EngineServer, is_loopback
from gpu_workers.process import prepare_process
from tentalis.core.sizes import say_bytes

KEY_VARIABLE = "TENTALIS_ENGINE_KEY"
_DRAIN_S = 7.0
_CLOSE_S = 1.0
logger = logging.getLogger("gpu_workers.engine")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.engine", description="Local inference engine.")
    parser.add_argument("--model", default="desk", help='"desk" for the built-in model, else a directory')
    parser.add_argument("--served-name", help="what requests call the base; default: desk, or the directory's name")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind; anything but loopback wants a key")
    parser.add_argument(
        "--allow-host", action="append", default=[], help="a name it answers to beside this machine's; may be repeated"
    )
    parser.add_argument(
        "--adapters-in", type=Path, help="load adapters and step scorers only from inside this directory"
    )
    parser.add_argument("--models-in", type=Path, help="serve these model directories too, each read when asked for")
    parser.add_argument(
        "--memory-mib",
        type=int,
        default=0,
        help="they and what is kept of prompts may take; default: half of what the machine has",
    )
    parser.add_argument(
        "--prefix-mib",
        type=int,
        default=PREFIX_BYTES >> 20,
        help="each base model keeps of what was read and drawn, for prompts that begin with it; 0: nothing",
    )
    parser.add_argument(
        "--device", choices=DEVICES, default="auto", help="auto: a GPU where there is one, but not for small models"
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="auto",
        help="of what models compute in; auto: bfloat16 on a GPU, float32 on a processor, whose log-probs are exact",
    )
    parser.add_argument("--port", type=int, default=8300)
    parser.add_argument("--max-rows", type=int, default=512, help="choices that decode at the same time")
    parser.add_argument("--max-waiting", type=int, default=4096, help="prompts that may wait before 429")
    return parser


async def serve(
    engine: Served | Bases,
    *,
    host: str,
    port: int,
    key: str = "",
    root: Path | None = None,
    names: Sequence[str] = (),
) -> None:
    """Serve until a signal; then drain and return. Raises OSError when the port cannot be bound."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = EngineServer(engine, host=host, key=key, root=root, names=names)
    runner = web.AppRunner(
        server.app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=_CLOSE_S
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
        server.start()
        logger.info(
            "serving %s on http://%s:%d", (engine.first if isinstance(engine, Bases) else engine).base.name, host, port
        )
        await stopping.wait()
        logger.info("stopping: finishing the requests that run")
        await server.stop(drain_s=_DRAIN_S)
    finally:
        await runner.cleanup()


def require_room(directory: Path) -> None:
    """Raises ModelUnreadableError: the machine has less memory than a model's weights take."""
    wanted, there = count_bytes(directory), _count_memory()
    if wanted > there:
        raise ModelUnreadableError(
            f"the model in {directory} wants {say_bytes(wanted)} of memory, the machine has {say_bytes(there)}"
        )


def _count_memory() -> int:
    """Bytes of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def main(arguments: list[str] | None = None) -> int:
    parser = build_parser()
    options = parser.parse_args(arguments)
    key = os.environ.get(KEY_VARIABLE, "")  # never on a command line, which everybody on the machine can read
    if not key and not is_loopback(options.host):
        parser.error(f"--host {options.host} lets others in: set {KEY_VARIABLE}, which callers must then know")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    prepare_process(has_one_heap=True)
    try:
        settings = {
            "max_rows": options.max_rows,
            "max_waiting": options.max_waiting,
            "prefix_bytes": max(0, options.prefix_mib) << 20,
            "device": options.device,
            "precision": options.precision,
        }
        if options.model != BUILT_IN:
            require_room(Path(options.model).expanduser())
        first = Engine.open(options.model, name=options.served_name, **settings)
        most_bytes = options.memory_mib << 20 or _count_memory() // 2
        serving = serve(
            Bases(first, kept_in=options.models_in, most_bytes=most_bytes, **settings),
            host=options.host,
            port=options.port,
            key=key,
            root=options.adapters_in,
            names=options.allow_host,
        )
        asyncio.run(serving)
    except ModelUnreadableError as error:
        sys.stderr.write(f"engine: {error}\n")
        return 1
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"engine: cannot listen on {options.host}:{options.port}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
