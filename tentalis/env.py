"""The environment's variables, typed. An unreadable or unknown TENTALIS_* value stops the start with its name."""

import base64
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tentalis.core.checked import FieldError
from tentalis.core.edge_limits import EdgeLimits
from tentalis.core.tool_servers import ToolServer
from tentalis.core.webhooks import MIN_SECRET_BYTES, write_secret
from tentalis.core.webhooks import PREFIX as SECRET_PREFIX
from tentalis.core.world_servers import WorldServer
from tentalis.outbound.addresses import MAX_URL_CHARS
from tentalis.plugins import NAME, name_backends

PREFIX = "TENTALIS_"
Number = TypeVar("Number", int, float)
Server = TypeVar("Server")


class EnvironmentVariableError(Exception):
    """A TENTALIS_* variable is unknown or unreadable; the message names it, what was wanted and what was found."""


@dataclass(frozen=True)
class Variable:
    """One setting a person may give by environment.

    Args:
        read: text -> value; raises ValueError with what was expected.
        default: used when the variable is unset or empty.
        secret: never shown; `doctor` masks it.
    """

    name: str
    read: Callable[[str], Any]
    default: Any
    help: str
    secret: bool = False


def read_text(value: str) -> str:
    return value


def read_bool(value: str) -> bool:
    lowered = value.strip().lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off"}:
        return False
    raise ValueError("true or false")


def read_list(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def read_origins(value: str) -> list[str]:
    """`*`, or `scheme://host[:port]` as browsers send it."""
    found = read_list(value)
    for origin in found:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.scheme or not parts.netloc or f"{parts.scheme}://{parts.netloc}" != origin):
            raise ValueError("origins like https://app.example.org, separated by commas, or *")
    return found


def read_path(value: str) -> Path:
    return Path(value).expanduser()


def read_int(minimum: int, maximum: int) -> Callable[[str], int]:
    return lambda value: _read_number(int, value, minimum, maximum, f"a whole number from {minimum} to {maximum}")


def read_float(minimum: float, maximum: float) -> Callable[[str], float]:
    return lambda value: _read_number(float, value, minimum, maximum, f"a number from {minimum:g} to {maximum:g}")


def _read_number(kind: Callable[[str], Number], value: str, minimum: Number, maximum: Number, wanted: str) -> Number:
    try:
        number = kind(value)
    except ValueError:
        raise ValueError(wanted) from None
    if not minimum <= number <= maximum:
        raise ValueError(wanted)
    return number


def read_choice(*choices: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value

    return read


def read_choices(*choices: str) -> Callable[[str], list[str]]:
    """Some of the choices, separated by commas."""

    def read(value: str) -> list[str]:
        found = read_list(value)
        if set(found) - set(choices):
            raise ValueError(f"some of {', '.join(choices)}, separated by commas")
        return list(dict.fromkeys(found))

    return read


def read_url(*schemes: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        parts = urlsplit(value)
        try:
            port_is_readable = parts.port is None or parts.port > 0
        except ValueError:
            port_is_readable = False
        if parts.scheme not in schemes or not parts.hostname or not port_is_readable:
            raise ValueError(f"a URL like {schemes[0]}://host:port/…")
        return value

    return read


def read_webhook_url(value: str) -> str:
    if len(value) > MAX_URL_CHARS:
        raise ValueError(f"a URL of at most {MAX_URL_CHARS} characters")
    return read_url("https", "http")(value)


def read_webhook_secret(value: str) -> str:
    try:
        return write_secret(base64.b64decode(value.removeprefix(SECRET_PREFIX), validate=True))
    except ValueError:
        raise ValueError(
            f"{SECRET_PREFIX} and at least {MIN_SECRET_BYTES} bytes in base64, as `openssl rand -base64 32` writes them"
        ) from None


def read_object(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("a JSON object")
    return found


def read_limits(value: str) -> EdgeLimits:
    """`{"web_body_bytes": 4000000}` -> the table of limits with that changed."""
    try:
        return EdgeLimits.from_json(read_object(value))
    except FieldError as error:
        raise ValueError(f'limits by name, as {{"web_body_bytes": 4000000}} ({error})') from None


def read_servers(kind: Callable[[Any], Server], noun: str) -> Callable[[str], dict[str, Server]]:
    """`{"maze": {"url": "http://127.0.0.1:9000"}}` -> name -> what is said of its server, as `kind` reads it."""

    def read(value: str) -> dict[str, Server]:
        found = {}
        for name, told in read_object(value).items():
            if not NAME.fullmatch(name):
                raise ValueError(f"names of lower-case letters, digits and _ ({name!r:.40} is none)")
            try:
                found[name] = kind(told)
            except ValueError as error:
                raise ValueError(f"an object of {noun} ({name}: {error})") from None
        return found

    return read


def read_networks(value: str) -> list[str]:
    """Addresses and networks, separated by commas."""
    found = read_list(value)
    for item in found:
        try:
            ip_network(item)
        except ValueError:
            raise ValueError("addresses or networks such as 10.0.0.2, 172.16.0.0/12, separated by commas") from None
    return found


def read_queue_processes(value: str) -> list[tuple[list[str], str, int]]:
    """`workers,scorers,hints,gates=threads:16;control=threads:4` -> [(queues, pool, concurrency), …].

    `episodes`, where no group names it, is read by those that read `workers`.
    """
    wanted = "groups like workers,scorers,hints,gates=threads:16;control=threads:4 (pool: threads or solo)"
    groups = []
    for group in filter(None, value.split(";")):
        queues, _, pool_text = group.partition("=")
        pool, _, size = pool_text.partition(":")
        if not queues or pool not in {"threads", "solo"} or not (size or "1").isdigit() or int(size or 1) < 1:
            raise ValueError(wanted)
        groups.append((read_list(queues), pool, int(size or 1)))
    if not any("episodes" in queues for queues, _, _ in groups):
        for read, _, _ in groups:
            read += ["episodes"] * ("workers" in read)
    if missing := QUEUES - {queue for queues, _, _ in groups for queue in queues}:
        raise ValueError(f"{wanted}, and one that reads {', '.join(sorted(missing))}")
    return groups


QUEUES = {"workers", "scorers", "hints", "gates", "control"}
"""All but `control` ask servers outside, and share their threads out among the projects."""
PORT = read_int(1, 65535)
PROVIDER_KINDS = ["engine", "vllm", "openai", "anthropic", "gemini", "openrouter", "deepseek", "together", "fireworks"]
PROVIDER_KINDS += ["groq", "cerebras", "xai", "zhipu", "kimi", "minimax", "ollama", "tinker", "custom"]
"""As in `apps.inference.provider_kinds`, which cannot be imported without the web application."""

VARIABLES: dict[str, Variable] = {
    PREFIX + variable.name: variable
    for variable in [
        Variable("HOME", read_path, Path("~/.tentalis").expanduser(), "config, embedded data, artifacts and logs"),
        Variable("ARTIFACTS", read_path, None, "adapters and rollout files; default: artifacts under the home"),
        Variable(
            "SANDBOXES", read_path, None, "directory of a sandbox host beside this platform; unset: `up` runs its own"
        ),
        Variable(
            "SANDBOX_BACKEND",
            read_choice("embedded", "docker", "podman", "subprocess"),
            "embedded",
            "what holds in the sandboxes of the host that `up` runs; subprocess holds nothing in",
        ),
        Variable(
            "SANDBOX_ENGINE", read_path, None, "socket of Docker's or Podman's daemon; unset: where it usually is"
        ),
        Variable(
            "SANDBOX_TRUSTED_CODE",
            read_bool,
            False,
            "all code in sandboxes is trusted: the backend subprocess wants it",
        ),
        Variable(
            "BROWSER", read_path, None, "Chromium, for worlds whose tasks are pages; unset: the first on the path"
        ),
        Variable("BACKUP_DIR", read_path, None, "where backups go; default: backups under the home; better elsewhere"),
        Variable("DATABASE_URL", read_url("postgres", "postgresql"), None, "Postgres; unset: the embedded one", True),
        Variable(
            "MIGRATION_DATABASE_URL",
            read_url("postgres", "postgresql"),
            None,
            "the same database as the owner of its tables, for `prepare_database`; unset: one role does both",
            True,
        ),
        Variable(
            "ADMIN_DATABASE_URL",
            read_url("postgres", "postgresql"),
            None,
            "the same as a superuser, who makes the roles and backs up; unset: somebody else makes them",
            True,
        ),
        Variable("REDIS_URL", read_url("redis", "rediss"), None, "Redis; unset: the embedded one", True),
        Variable("SECRET_KEY", read_text, None, "signs sessions and tokens", True),
        Variable("KEY_RING", read_path, None, "file of keys that seal API keys, newest first; unset: the secret key"),
        Variable("DEBUG", read_bool, False, "Django's debug pages; never in production"),
        Variable("ALLOWED_HOSTS", read_list, ["localhost", "127.0.0.1", "[::1]"], "host names the web answers to"),
        Variable("CSRF_TRUSTED_ORIGINS", read_list, [], "origins such as https://tentalis.example"),
        Variable("HTTPS", read_bool, False, "served behind TLS: secure cookies, HSTS, redirect"),
        Variable("ADMIN_PASSWORD", read_text, None, "password of the first admin that `up` makes", True),
        Variable(
            "PROCESS",
            read_choice("web", "gateway", "relay", "queue", "migrate", "command"),
            "",
            "kind of process: web, gateway, relay, queue; `tentalis up` says it",
        ),
        Variable("STATEMENT_TIMEOUT_S", read_int(0, 86_400), None, "longest statement; default: by kind of process"),
        Variable("LOCK_TIMEOUT_S", read_int(0, 86_400), None, "longest wait for a lock; default: by kind of process"),
        Variable(
            "IDLE_IN_TRANSACTION_TIMEOUT_S",
            read_int(0, 86_400),
            None,
            "longest open transaction that does nothing; default: by kind of process",
        ),
        Variable(
            "REQUIRE_SECOND_FACTOR",
            read_choice("none", "staff", "all"),
            "none",
            "who must have a second factor: nobody, admins and staff of the installation, or all",
        ),
        Variable("WEB_HOST", read_text, "127.0.0.1", "address the web binds"),
        Variable("WEB_PROCESSES", read_int(1, 64), 2, "web processes behind the one address"),
        Variable("WEB_PORT", PORT, 8000, "web, REST, websockets, bridge"),
        Variable("GATEWAY_HOST", read_text, "127.0.0.1", "address the gateway binds"),
        Variable("GATEWAY_PORT", PORT, 8200, "the gateway: where agents ask models"),
        Variable(
            "GATEWAY_URL",
            read_url("http", "https"),
            None,
            "the gateway, for agents that run in queue processes; unset: its port on this machine",
        ),
        Variable(
            "GATEWAY_WORKERS", read_int(1, 64), 1, "processes of a gateway, on one port: one a core that it may use"
        ),
        Variable("GATEWAY_IN_FLIGHT", read_int(1, 100_000), 1024, "requests each of them answers at the same time"),
        Variable(
            "GATEWAY_CORS_ORIGINS",
            read_origins,
            [],
            "origins whose pages may ask the gateway from a browser; none: no page",
        ),
        Variable("LIMITS", read_limits, EdgeLimits(), "limits at the edges to change, a JSON object (docs/limits.md)"),
        Variable(
            "TRUSTED_PROXIES", read_networks, [], "proxies in front, whose X-Forwarded-For is believed; none: nobody's"
        ),
        Variable("METRICS_TOKEN", read_text, "", "who may read /metrics; unset: who asks from this machine", True),
        Variable("ENGINE_PORT", PORT, 8300, "the local engine"),
        Variable("ENGINE_URL", read_url("http", "https"), None, "engine; unset: the local one on its port"),
        Variable("ENGINE_KEY", read_text, None, "what callers of the engine must know; unset: `up` makes one", True),
        Variable(
            "ENGINE_MEMORY_MIB",
            read_int(0, 2**24),
            0,
            "what kept models and what is kept of prompts may take in the engine; 0: half of the machine's memory",
        ),
        Variable(
            "ENGINE_DEVICE",
            read_choice("auto", "cpu", "cuda"),
            "auto",
            "where the engine computes; auto: on a GPU where there is one, small models on the processor",
        ),
        Variable(
            "ENGINE_PRECISION",
            read_choice("auto", "float32", "bfloat16"),
            "auto",
            "what the engine computes in; auto: bfloat16 on a GPU, float32 on a processor",
        ),
        Variable(
            "TRAINING_MEMORY_MIB",
            read_int(0, 2**24),
            0,
            "what a training run may take of memory, the card's or the machine's; one that wants more is refused "
            "before it starts; 0: all there is",
        ),
        Variable(
            "TRAINING_PROCESSES",
            read_int(0, 64),
            1,
            "processes that share a training, each on a GPU of its own where there are any; 0: one for each GPU",
        ),
        Variable(
            "TORCH_THREADS",
            read_int(1, 1_024),
            1,
            "threads that the engine and a training run each compute on; the built-in model is quickest on 1",
        ),
        Variable("POSTGRES_PORT", PORT, 54320, "the embedded Postgres"),
        Variable("REDIS_PORT", PORT, 63790, "the embedded Redis"),
        Variable(
            "QUEUE_PROCESSES",
            read_queue_processes,
            [(["workers", "episodes", "scorers", "hints", "gates"], "threads", 16), (["control"], "threads", 4)],
            "queue processes: queues=pool:size;…",
        ),
        Variable("IN_FLIGHT_CAP", read_int(1, 100_000), 64, "messages sent out and unfinished, per kind"),
        Variable("LEASE_SECONDS", read_float(0.5, 86_400), 60.0, "a claim lives so long without a heartbeat"),
        Variable("MAX_ATTEMPTS", read_int(1, 100), 5, "tries of one link before its segment is failed work"),
        Variable("RETRY_BASE_SECONDS", read_float(0.0, 3600), 1.0, "first wait before a retry; doubles, with jitter"),
        Variable(
            "SERVER_PATIENCE_SECONDS",
            read_float(0.0, 2_592_000),
            7200.0,
            "work waits so long for a model server or broker that is away, before such tries count",
        ),
        Variable("WATCHDOG_SECONDS", read_float(1, 86_400), 30.0, "work claimable and none claimed: leave, restart"),
        Variable("RUN_SILENCE_SECONDS", read_float(1, 86_400), 60.0, "a training without a sign of life is retried"),
        Variable("TRAINING_PLACES", read_int(1, 64), 1, "trainings of the box at a time, all projects together"),
        Variable(
            "PRM_TRAIN_AFTER", read_int(0, 10_000_000), 3_000, "new steps a step scorer is trained after; 0: never"
        ),
        Variable("PRM_COMPLETIONS", read_int(1, 64), 6, "completions from a step's end that label it"),
        Variable("WEBHOOK_TIMEOUT_SECONDS", read_float(0.1, 120), 15.0, "a webhook's address answers in so long"),
        Variable("WEBHOOK_DISABLE_DAYS", read_float(0.0001, 365), 5.0, "a webhook failing for so long is switched off"),
        Variable(
            "BACKUP_MAX_AGE_HOURS", read_float(0, 100_000), 48.0, "alarm when none was made for so long; 0: never"
        ),
        Variable("DRILL_MAX_AGE_DAYS", read_float(0, 10_000), 35.0, "alarm when no backup was tried out; 0: never"),
        Variable("RETENTION_WORK_DAYS", read_int(1, 36_500), 30, "work that is done is kept on the timetable so long"),
        Variable("RETENTION_DELIVERY_DAYS", read_int(1, 36_500), 90, "webhook deliveries given up are kept so long"),
        Variable("RETENTION_TOKEN_DAYS", read_int(1, 36_500), 90, "tokens expired or revoked are kept so long"),
        Variable("RETENTION_FILE_DAYS", read_int(1, 36_500), 30, "files that nothing needs are kept so long"),
        Variable("ALARM_EMAILS", read_list, [], "addresses that alarms are sent to"),
        Variable("ALARM_WEBHOOK_URL", read_webhook_url, "", "address that alarms are posted to", secret=True),
        Variable("ALARM_WEBHOOK_SECRET", read_webhook_secret, "", "what they are signed with, whsec_…", secret=True),
        Variable(
            "OTLP_ENDPOINT",
            read_url("http", "https"),
            None,
            "OpenTelemetry collector that spans are told to, such as http://collector:4318/v1/traces; unset: nobody",
        ),
        Variable("OTLP_HEADERS", read_text, "", "headers of what is told there: name=value,…", secret=True),
        Variable(
            "OPENENV",
            read_servers(WorldServer.from_json, "world servers"),
            {},
            'worlds on servers of OpenEnv, {"name": {"url": …}, …}',
        ),
        Variable(
            "MCP_WORLDS",
            read_servers(ToolServer.from_json, "tool servers"),
            {},
            'worlds of tools of MCP servers, {"name": {"url": …}, …}',
        ),
        Variable("EMAIL_URL", read_url("smtp", "smtps"), None, "mail server, smtp://user:password@host:587", True),
        Variable("EMAIL_FROM", read_text, "tentalis@localhost", "sender of mails"),
        Variable("LOG_LEVEL", read_choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "how much the logs say"),
        Variable("CRASH_AT", read_text, "", "name of a crash point to die at (fault tests only)"),
        # for tools and agents on this machine: the platform itself reads none of them
        Variable("URL", read_url("http", "https"), None, "the platform, for `tentalis mcp` and an agent's skills"),
        Variable("TOKEN", read_text, None, "a token for `tentalis mcp` and scripts", True),
        Variable("AGENT_KEY", read_text, None, "an agent's token, where the agent runs", True),
        # meanings kept from the older system
        Variable("INFERENCE_BACKEND", read_choice(*PROVIDER_KINDS), "engine", "model server kind"),
        Variable("INFERENCE_BASE_URL", read_url("http", "https"), None, "model server; unset: the engine's URL"),
        Variable("INFERENCE_API_KEY", read_text, None, "its key", True),
        Variable("LLM_MODEL", read_text, "", "model of judges and AI managers; empty: none are configured"),
        Variable("TRACKING", read_choices("tensorboard", "mlflow", "wandb"), [], "who writes curves of trainings"),
        Variable("TRACKING_OPTIONS", read_object, {}, 'their settings, {"mlflow": {"tracking_uri": …}, …}'),
        Variable(
            "TRUSTED_PLUGINS",
            read_list,
            [],
            "packages that are vouched for: they load at once, and their graders run here and not in a sandbox",
        ),
        Variable(
            "AGENT_ENVIRONMENTS",
            read_list,
            [],
            "virtual environments beside this one whose packages bring agents of other frameworks",
        ),
        Variable("TRAINER_BACKEND", read_choice(*name_backends()), "standalone", "who trains"),
        Variable("RAY_URL", read_url("http", "https"), "", "dashboard of the Ray cluster OpenRLHF trains on"),
        Variable("RAY_TOKEN", read_text, "", "bearer token in front of it", secret=True),
        Variable("OPENRLHF_OPTIONS", read_object, {}, "sizes and addresses of runs on it, a JSON object"),
        Variable("TINKER_URL", read_url("https", "http"), None, "the Tinker service; unset: the one its client knows"),
        Variable("TINKER_API_KEY", read_text, None, "its key", secret=True),
        Variable("TINKER_OPTIONS", read_object, {}, "model and retention of runs there, a JSON object"),
        Variable("REWARD_BASE_URL", read_url("http", "https"), "", "where the cluster reaches this platform's web"),
        Variable("TASK_TIMEOUT_SECONDS", read_float(1, 86_400), 300.0, "one link's work on a task"),
        Variable(
            "OPD_MODE", read_choice("lightweight", "logprobs", "top_k"), "logprobs", "hint text only, or the teacher's"
        ),
        Variable("OPD_TEACHER_MODEL", read_text, "", "teacher of OPD; empty: the frozen base model"),
        Variable(
            "TEACHER_URL", read_url("http", "https"), "", "vLLM or engine that a recipe's teacher served:NAME is on"
        ),
        Variable("TEACHER_API_KEY", read_text, "", "its key", secret=True),
        Variable("OPD_WEIGHT", read_float(0, 10), 0.3, "weight of the OPD loss"),
        Variable("RL_WEIGHT", read_float(0, 10), 0.7, "weight of the RL loss"),
        Variable("TRAINING_CLIP_EPSILON", read_float(0, 1), 0.2, "lower clip of the surrogate"),
        Variable("TRAINING_CLIP_EPSILON_HIGH", read_float(0, 10), 0.28, "upper clip of the surrogate"),
        Variable("META_RL_ENABLED", read_bool, False, "train managers too"),
        Variable("META_RL_WINDOW_SIZE", read_int(1, 1_000_000), 200, "feedbacks a manager is trained on"),
        Variable("ALIGNMENT_ENABLED", read_bool, False, "ask each candidate whether it is as honest as what serves"),
    ]
}


def read_environment(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Every variable's value by its name without the prefix.

    Raises:
        EnvironmentVariableError: a TENTALIS_* variable nobody knows, or one that cannot be read.
    """
    if unknown := sorted(name for name in environ if name.startswith(PREFIX) and name not in VARIABLES):
        raise EnvironmentVariableError(
            f"unknown variable {', '.join(unknown)}; known are {', '.join(sorted(VARIABLES))}"
        )
    return {variable.name: read_variable(variable.name, environ) for variable in VARIABLES.values()}


def read_variable(name: str, environ: Mapping[str, str] = os.environ) -> Any:
    """One variable's value. Raises EnvironmentVariableError where it cannot be read."""
    variable = VARIABLES[PREFIX + name]
    text = environ.get(PREFIX + name, "")
    try:
        return variable.read(text) if text else variable.default
    except ValueError as error:
        shown = "a secret value" if variable.secret else repr(text)
        raise EnvironmentVariableError(f"{PREFIX}{name} must be {error}, found {shown}") from None
