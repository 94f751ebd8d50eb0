"""Which processes make up Tentalis on one machine, with their ports, passwords and order."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tentalis.env import PREFIX, VARIABLES
from tentalis.kept_models import models_directory
from tentalis.platform import database_roles, postgres_server, redis_server, redis_users
from tentalis.platform.config import Config, load_config, read_settings
from tentalis.platform.derived import derive_password
from tentalis.platform.errors import UnknownServiceError
from tentalis.platform.home import Home
from tentalis.platform.ports import choose_port
from tentalis.platform.probes import (
    SIGN_OF_LIFE_VARIABLE,
    http_probe,
    postgres_probe,
    redis_probe,
    sandbox_probe,
    sign_of_life_probe,
    write_url,
)
from tentalis.platform.service import Service
from tentalis.sandbox.client import HOST_ENVIRONMENT, STOP_WITHIN_S, list_options

PROJECT_DIRECTORY = Path(__file__).resolve().parent.parent.parent
LOOPBACK = "127.0.0.1"
STORES = ("postgres", "redis")
OWNERS_ADDRESSES = ("migration_database_url", "admin_database_url")
"""Of the database; only what prepares it gets these."""
FROZEN_PATIENCE_S = 20.0
WORKER_PATIENCE_S = 60
"""After which uvicorn ends one of several web processes whose own thread for that question says nothing."""
WEB_PATIENCE_S = 90.0
"""After which all of them are ended: none has answered `/healthz`, which waits for no request and no database."""
GATEWAY_STOP_S = 30.0
ENGINE_MODEL = "desk"
QUEUE_FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO")
EDGE_FLAGS = ("--http", "tentalis.inbound.protocol:BoundedProtocol", "--no-proxy-headers", "--no-server-header")
"""Of uvicorn: limits before a request is whole; who is believed about addresses is decided in tentalis.asgi."""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Of processes that compute: memory in pages of 2 MiB, where the kernel gives them to who asks (madvise(2)): a model is
read whole at each step, and each page of it is looked up. Since glibc 2.35; what knows no such word looks over it."""


@dataclass(frozen=True)
class Stack:
    """What to run: the services in an order in which each stands after what it needs, and where they answer.

    Args:
        addresses: database_url of the application's role, migration_database_url of the owner of the tables and
            admin_database_url of a superuser (where there are such), redis_url (all with passwords), console_url,
            gateway_url, engine_url.
    """

    services: tuple[Service, ...]
    addresses: dict[str, str]

    def only(self, names: Sequence[str]) -> "Stack":
        """The named services with what they come after."""
        wanted = set(names)
        for service in reversed(self.services):
            if service.name in wanted:
                wanted |= set(service.after)
        if unknown := sorted(set(names) - {service.name for service in self.services}):
            raise UnknownServiceError(
                f"unknown services {', '.join(unknown)}; there are {', '.join(row.name for row in self.services)}"
            )
        return replace(self, services=tuple(service for service in self.services if service.name in wanted))


@dataclass(frozen=True)
class _Plan:
    """What every builder below needs to know."""

    home: Home
    config: Config
    settings: dict[str, Any]
    was_asked_for: Callable[[str], bool]
    base: dict[str, str]
    is_throwaway: bool

    def port(self, name: str, host: str = LOOPBACK) -> int:
        variable = f"{name}_PORT"
        return choose_port(
            host=host,
            usual=self.settings[variable],
            was_asked_for=self.was_asked_for(variable),
            variable=PREFIX + variable,
        )


def plan_stack(
    home: Home, config: Config, environ: Mapping[str, str], *, is_throwaway: bool = False, only: Sequence[str] = ()
) -> Stack:
    """Work out the services. Starts nothing; writes the Redis configuration.

    Args:
        is_throwaway: the stores forget on a crash of the machine and are faster; for tests.
        only: names of services; with what they need. Empty: all.
    Raises:
        EnvironmentVariableError: a setting is unknown or unreadable.
        PlatformError: a port somebody asked for is taken, a program is missing, the data is of another version.
    """
    given = config.complete(environ)
    plan = _Plan(
        home=home,
        config=config,
        settings=read_settings(home, config, environ),
        was_asked_for=lambda name: bool(given.get(PREFIX + name)),
        base=_base_environment(home, given),
        is_throwaway=is_throwaway,
    )
    stores, addresses = _plan_stores(plan)
    if only and set(only) <= set(STORES):
        return Stack(tuple(store for store in stores if store.name in only), addresses)

    web_port = plan.port("WEB", plan.settings["WEB_HOST"])
    gateway_port = plan.port("GATEWAY", plan.settings["GATEWAY_HOST"])
    engine_port = plan.port("ENGINE")
    addresses["console_url"] = write_url(plan.settings["WEB_HOST"], web_port)
    addresses["gateway_url"] = write_url(plan.settings["GATEWAY_HOST"], gateway_port)
    addresses["engine_url"] = plan.settings["ENGINE_URL"] or f"http://{LOOPBACK}:{engine_port}"
    environment = web_environment(home, config, environ, addresses)
    store_names = tuple(service.name for service in stores)
    of = {user: _in_redis_as(user, plan, environment) for user in ("web", "queues", "gateway", "box")}
    services = [
        *stores,
        *_plan_engine(plan, _torch_environment(environment, f"{PREFIX}ENGINE_KEY"), engine_port),
        *_plan_box(plan, of["box"], store_names),
        *_plan_sandboxes(plan),
        *_plan_set_up(plan, of["web"], store_names, addresses),
        _plan_web(plan, _named("web", of["web"]), web_port),
        _plan_gateway(plan, _named("gateway", of["gateway"]), gateway_port),
        Service(name="relay", argv=_manage("relay"), environment=_named("relay", of["queues"]), after=("migrate",)),
        *_plan_queues(plan, _named("queue", of["queues"])),
    ]
    stack = Stack(tuple(services), addresses)
    return stack.only(only) if only else stack


def web_environment(
    home: Home, config: Config, environ: Mapping[str, str], addresses: Mapping[str, str]
) -> dict[str, str]:
    """What a process of the web side needs to find the rest of a stack; holds secrets."""
    given = config.complete(environ)
    environment = _base_environment(home, given) | {
        f"{PREFIX}DATABASE_URL": addresses["database_url"],
        f"{PREFIX}REDIS_URL": addresses["redis_url"],
        f"{PREFIX}SECRET_KEY": given.get(f"{PREFIX}SECRET_KEY") or config.secrets.secret_key,
        "DJANGO_SETTINGS_MODULE": environ.get("DJANGO_SETTINGS_MODULE") or "tentalis.settings.dev",
    }
    ports = {"console_url": "WEB_PORT", "gateway_url": "GATEWAY_PORT", "engine_url": "ENGINE_PORT"}
    for name, variable in ports.items():
        if port := urlsplit(addresses.get(name, "")).port:
            environment[PREFIX + variable] = str(port)
    if engine_url := addresses.get("engine_url"):
        environment[f"{PREFIX}ENGINE_URL"] = engine_url
        if not given.get(f"{PREFIX}ENGINE_URL"):  # our own: it wants a key
            made = derive_password(config.secrets.secret_key, "engine key")
            environment[f"{PREFIX}ENGINE_KEY"] = given.get(f"{PREFIX}ENGINE_KEY") or made
    return environment


def find_settings(home: Home, environ: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, str]:
    """As `web_environment`, of an installation that may not be made yet."""
    if home.config_file.exists():
        return web_environment(home, load_config(home), environ, addresses)
    unmade = {f"{PREFIX}SECRET_KEY": "of-no-installation", "DJANGO_SETTINGS_MODULE": "tentalis.settings.dev"}
    told = {f"{PREFIX}{name.upper()}": address for name, address in addresses.items()}
    return _base_environment(home, {**unmade, **environ}) | told


def _in_redis_as(user: str, plan: _Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """A process's environment with the rights in Redis of its kind; in somebody else's server those of its address."""
    if plan.settings["REDIS_URL"]:
        return dict(environment)
    name = f"{PREFIX}REDIS_URL"
    password = redis_users.password_of(user, plan.config.secrets.redis_password)
    return dict(environment) | {name: redis_users.url_of(user, password, environment[name])}


def _base_environment(home: Home, given: Mapping[str, str]) -> dict[str, str]:
    withheld = {PREFIX + name.upper() for name in OWNERS_ADDRESSES}
    base = {name: value for name, value in given.items() if name not in withheld} | ONE_THREAD
    # written once, the bytecode is there for the eight others: to compile torch and Django costs each 4 to 8 s of CPU
    base |= {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "", f"{PREFIX}HOME": str(home.root)}
    paths = [str(PROJECT_DIRECTORY), given.get("PYTHONPATH", "")]
    return base | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _named(process: str, environment: Mapping[str, str]) -> dict[str, str]:
    """With the kind of process it is, which decides how long its statements may take."""
    return dict(environment) | {f"{PREFIX}PROCESS": process}


def _torch_environment(environment: Mapping[str, str], *secrets: str) -> dict[str, str]:
    """What the engine and the training box get: large pages, no Django, and no secret but those named."""
    return LARGE_PAGES | {
        name: value
        for name, value in environment.items()
        if name != "DJANGO_SETTINGS_MODULE" and (name in secrets or name not in VARIABLES or not VARIABLES[name].secret)
    }


def _plan_stores(plan: _Plan) -> tuple[list[Service], dict[str, str]]:
    """Postgres and Redis, or the URLs of somebody else's."""
    services = []
    database_url, redis_url = plan.settings["DATABASE_URL"], plan.settings["REDIS_URL"]
    addresses = {
        "database_url": database_url,
        "migration_database_url": plan.settings["MIGRATION_DATABASE_URL"] or "",
        "admin_database_url": plan.settings["ADMIN_DATABASE_URL"] or "",
    }
    if not database_url:
        port = plan.port("POSTGRES")
        run_as = postgres_server.choose_run_as()
        password = plan.config.secrets.postgres_password
        admin_url = f"postgres://{postgres_server.USER}:{password}@{LOOPBACK}:{port}/{postgres_server.DATABASE}"
        roles = {"database_url": database_roles.APP, "migration_database_url": database_roles.OWNER}
        addresses = {"admin_database_url": admin_url} | {
            name: database_roles.url_of(role, database_roles.password_of(role, password), admin_url)
            for name, role in roles.items()
        }
        postgres_server.check_cluster_version(plan.home.postgres_data)
        services.append(
            Service(
                name="postgres",
                argv=postgres_server.postgres_command(
                    plan.home, port=port, run_as=run_as, is_throwaway=plan.is_throwaway
                ),
                environment=_without_ours(plan.base),
                probe=postgres_probe(LOOPBACK, port),
                prepare=partial(
                    postgres_server.prepare_cluster,
                    plan.home,
                    password=password,
                    run_as=run_as,
                    is_throwaway=plan.is_throwaway,
                ),
                port=port,
                user=run_as.user,
                stop_signal=postgres_server.STOP_SIGNAL,
                death_signal=postgres_server.STOP_SIGNAL,
                stop_timeout_s=30,
            )
        )
    if not redis_url:
        port = plan.port("REDIS")
        password = plan.config.secrets.redis_password
        redis_server.write_redis_config(plan.home, port=port, password=password, is_throwaway=plan.is_throwaway)
        redis_url = f"redis://:{password}@{LOOPBACK}:{port}/0"
        services.append(
            Service(
                name="redis",
                argv=redis_server.redis_command(plan.home),
                environment=_without_ours(plan.base),
                probe=redis_probe(LOOPBACK, port, password),
                port=port,
                death_signal=signal.SIGTERM,
            )
        )
    return services, {name: url for name, url in addresses.items() if url} | {"redis_url": redis_url}


def _plan_engine(plan: _Plan, environment: Mapping[str, str], port: int) -> list[Service]:
    """Our own engine, unless the settings name somebody else's."""
    if plan.was_asked_for("ENGINE_URL"):
        return []
    return [
        Service(
            name="engine",
            argv=[
                *(sys.executable, "-m", "gpu_workers.engine", "--model", ENGINE_MODEL, "--port", str(port)),
                *("--adapters-in", str(plan.settings["ARTIFACTS"] or plan.home.artifacts)),
                *("--models-in", str(models_directory(plan.home.root))),
                *("--memory-mib", str(plan.settings["ENGINE_MEMORY_MIB"])),
                *("--device", str(plan.settings["ENGINE_DEVICE"])),
                *("--precision", str(plan.settings["ENGINE_PRECISION"])),
            ],
            environment=environment,
            probe=http_probe(LOOPBACK, port, "/health"),
            port=port,
        )
    ]


def _plan_box(plan: _Plan, environment: Mapping[str, str], stores: tuple[str, ...]) -> list[Service]:
    """The training box's processes, each named as its queue. They wait for Redis alone: they have no database.

    One trains. Another looks after trainings on a Ray cluster, where there is one; of another the trainings are
    requests to Tinker, where there is a key: several wait there at a time.
    """
    kinds: list[tuple[str, str, int, tuple[str, ...]]] = [("gpu", "solo", 1, ("TEACHER_API_KEY",))]
    if plan.settings["RAY_URL"]:
        kinds.append(("cluster", "solo", 1, ("RAY_URL", "RAY_TOKEN")))
    if plan.settings["TINKER_API_KEY"]:
        kinds.append(("tinker", "threads", 4, ("TINKER_URL", "TINKER_API_KEY")))
    return [
        _queue_process(
            plan,
            name=name,
            app="gpu_workers.celery",
            queues=[name],
            pool=pool,
            size=size,
            environment=_torch_environment(environment, f"{PREFIX}REDIS_URL", *(PREFIX + secret for secret in secrets)),
            after=tuple(store for store in stores if store == "redis"),
        )
        for name, pool, size, secrets in kinds
    ]


def sandbox_options(settings: Mapping[str, Any]) -> list[str]:
    """What a sandbox host of ours is told on its command line."""
    return list_options(
        backend=settings["SANDBOX_BACKEND"],
        engine=settings["SANDBOX_ENGINE"],
        is_code_trusted=settings["SANDBOX_TRUSTED_CODE"],
    )


def _plan_sandboxes(plan: _Plan) -> list[Service]:
    """Our own sandbox host, unless the settings name another. It is told nothing of ours."""
    if plan.settings["SANDBOXES"]:
        return []
    directory = plan.home.sandboxes
    return [
        Service(
            name="sandboxes",
            argv=[
                *(sys.executable, "-I", "-m", "tentalis.sandbox", "--directory", str(directory), "--stays"),
                *sandbox_options(plan.settings),
            ],
            environment={name: plan.base[name] for name in HOST_ENVIRONMENT if name in plan.base},
            probe=sandbox_probe(directory),
            patience_s=FROZEN_PATIENCE_S,
            stop_timeout_s=STOP_WITHIN_S,
            death_signal=signal.SIGTERM,
        )
    ]


def _plan_set_up(
    plan: _Plan, environment: Mapping[str, str], stores: tuple[str, ...], addresses: Mapping[str, str]
) -> list[Service]:
    """Roles and migrations, then the first admin, whose password no other process gets."""
    password = plan.settings["ADMIN_PASSWORD"] or plan.config.secrets.admin_password
    with_password = dict(environment) | {f"{PREFIX}ADMIN_PASSWORD": password}
    owner = {PREFIX + name.upper(): addresses[name] for name in OWNERS_ADDRESSES if name in addresses}
    return [
        Service(
            name="migrate",
            argv=_manage("prepare_database", "-v", "1"),
            environment=_named("migrate", environment) | owner,
            after=stores,
            is_oneshot=True,
        ),
        Service(
            name="bootstrap",
            argv=_manage("bootstrap", "--token-file", str(plan.home.run / "admin-token")),
            environment=with_password,
            after=("migrate",),
            is_oneshot=True,
        ),
    ]


def _plan_web(plan: _Plan, environment: Mapping[str, str], port: int) -> Service:
    host: str = plan.settings["WEB_HOST"]
    names = [name.lstrip(".") for name in plan.settings["ALLOWED_HOSTS"] if name != "*"]
    argv = [
        *(sys.executable, "-m", "uvicorn", "tentalis.asgi:application", "--host", host, "--port", str(port)),
        *("--loop", "uvloop", "--no-access-log", "--timeout-graceful-shutdown", "5", *EDGE_FLAGS),
        *("--workers", str(plan.settings["WEB_PROCESSES"]), "--timeout-worker-healthcheck", str(WORKER_PATIENCE_S)),
    ]
    return Service(
        name="web",
        argv=argv,
        environment=environment,
        after=("migrate",),
        probe=http_probe(host, port, "/healthz", (names or ["localhost"])[0]),
        port=port,
        patience_s=WEB_PATIENCE_S,
    )


def _plan_gateway(plan: _Plan, environment: Mapping[str, str], port: int) -> Service:
    """The inference edge. Stopped, it lets the answers under way end first."""
    host: str = plan.settings["GATEWAY_HOST"]
    return Service(
        name="gateway",
        argv=[sys.executable, "-m", "apps.gateway", "--host", host, "--port", str(port)],
        environment=environment,
        after=("migrate",),
        probe=http_probe(host, port, "/health"),
        port=port,
        stop_timeout_s=GATEWAY_STOP_S,
        patience_s=FROZEN_PATIENCE_S,
    )


def _plan_queues(plan: _Plan, environment: Mapping[str, str]) -> list[Service]:
    groups: list[tuple[list[str], str, int]] = plan.settings["QUEUE_PROCESSES"]
    services: list[Service] = []
    for queues, pool, size in groups:
        name = "queues" if len(groups) == 1 else f"queue-{queues[0]}"
        same = sum(service.name == name or service.name.startswith(f"{name}-") for service in services)
        services.append(
            _queue_process(
                plan,
                name=f"{name}-{same + 1}" if same else name,
                app="tentalis.celery",
                queues=queues,
                pool=pool,
                size=size,
                environment=environment,
                after=("migrate",),
            )
        )
    return services


def _queue_process(
    plan: _Plan,
    *,
    name: str,
    app: str,
    queues: Sequence[str],
    pool: str,
    size: int,
    environment: Mapping[str, str],
    after: tuple[str, ...],
) -> Service:
    """A Celery process. A pool of threads or none: a prefork pool can be alive and idle for ever after a child died."""
    sign_of_life = plan.home.run / f"{name}.alive"
    return Service(
        name=name,
        argv=[
            *(sys.executable, "-m", "celery", "-A", app, "worker", "-P", pool, "-c", str(size)),
            *("-Q", ",".join(queues), "-n", f"{name}@%h", *QUEUE_FLAGS, "--include", "tentalis.platform.sign_of_life"),
        ],
        environment=dict(environment) | {SIGN_OF_LIFE_VARIABLE: str(sign_of_life), "CELERY_SKIP_CHECKS": "1"},
        after=after,
        probe=sign_of_life_probe(sign_of_life),
        prepare=lambda: sign_of_life.unlink(missing_ok=True),
        patience_s=FROZEN_PATIENCE_S,
    )


def _manage(*words: str) -> list[str]:
    return [sys.executable, "-m", "django", *words]


def _without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
