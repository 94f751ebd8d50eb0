"""One gateway process: its parts put together, run until a signal, taken apart in order."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo

from apps.base.tasks import cancel_and_wait
from apps.gateway.closing import close_session
from apps.gateway.config_cache import ConfigCache
from apps.gateway.edge import Edge
from apps.gateway.group import expose_group, name_group, watch_parent
from apps.gateway.limits import Budgets, connect_redis
from apps.gateway.rates import KnownRates
from apps.gateway.server import GatewayServer
from apps.gateway.spool import FileSpool, measure_ends
from apps.gateway.traces import read_earlier, read_traces
from apps.gateway.upstreams import Upstreams
from apps.gateway.writer import Writer
from tentalis.garbage import settle_garbage

logger = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""How long the writer's thread may keep the event loop waiting; Python's own 5 ms are ten times an answer's time."""
GC_THRESHOLDS = 10_000, 20, 50
"""A long answer is thousands of small objects that live for a millisecond: looking at them each time costs a tenth."""
_PARAMETERS = ("host", "port", "dbname", "user", "password", "sslmode", "sslrootcert", "sslcert", "sslkey")


async def run(sockets: Sequence[socket.socket], *, spool_name: str = "") -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        sockets: bound, to listen at.
        spool_name: of one of several processes, whose spool the process that started them carries over.
    Raises:
        django.db.Error: the database cannot be asked at the start.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    config, upstreams, budgets = ConfigCache(), Upstreams(), Budgets(connect_redis(settings.REDIS_URL))
    spool = FileSpool(settings.HOME / "spool", name=spool_name)
    writer = None if spool_name else make_writer(spool)
    edge = Edge(
        config=config,
        upstreams=upstreams,
        budgets=budgets,
        spool=spool,
        find_earlier=lambda caller, answer: config.ask(lambda: read_earlier(caller, answer)),
        most_in_flight=settings.TENTALIS["GATEWAY_IN_FLIGHT"],
        origins=frozenset(settings.TENTALIS["GATEWAY_CORS_ORIGINS"]),
        find_troubles=lambda: [*(writer.find_troubles() if writer else ()), *spool.find_troubles()],
    )
    edge.metrics.gauges |= {
        "in_flight": ("Requests being answered.", lambda: edge.in_flight),
        "loop_lag_seconds": ("How late the event loop runs.", lambda: edge.lag_s),
        "spool_bytes": ("Waiting to be stored.", lambda: spool.size_bytes),
        **(writer.gauges if writer else {}),
    }
    own = spool.directory.path
    server = GatewayServer(
        edge,
        lambda caller, key, after, limit: config.ask(lambda: read_traces(caller, key, after, limit)),
        lambda caller, key: config.ask(
            lambda: close_session(
                caller.project, key, agent=caller.agent, ends=measure_ends(spool.root, name_group(own.name))
            )
        ),
        sockets=sockets,
        expose=None if writer else lambda: expose_group(own, edge.metrics),
        trusted_proxies=settings.TENTALIS["TRUSTED_PROXIES"],
        metrics_token=settings.TENTALIS["METRICS_TOKEN"],
    )
    async with AsyncExitStack() as stack:
        stack.callback(spool.close)
        await config.start()
        stack.push_async_callback(config.stop)
        if writer is not None:
            writer.start()
            stack.push_async_callback(asyncio.to_thread, writer.stop)
        budgets.start()
        stack.push_async_callback(budgets.stop)
        upstreams.start()
        stack.push_async_callback(upstreams.stop)
        await server.start()
        stack.push_async_callback(server.stop)
        settle_garbage(GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_S)
        if writer is None:
            watching = asyncio.create_task(watch_parent(spool, edge.metrics, stopping))
            stack.push_async_callback(cancel_and_wait, watching)
        logger.info("serving on port %d", server.port)
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await stopping.wait()
        logger.info("stopping: finishing the requests that run")


def make_writer(spool: FileSpool, *, follows: str = "") -> Writer:
    kept_s = settings.TENTALIS["RETENTION_FILE_DAYS"] * 86_400.0
    return Writer(spool, read_conninfo(), find_rates=KnownRates(), follows=follows, rejected_kept_s=kept_s)


def read_conninfo() -> str:
    """How Django reaches its database, in psycopg's words."""
    given = connection.get_connection_params()
    return make_conninfo(**{name: given[name] for name in _PARAMETERS if given.get(name)})
