"""Requests to addresses that somebody typed in: none reaches this machine, and no key goes astray."""

import ast
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.outbound.addresses import BlockedAddressError, Origin, check_url, is_allowed
from tentalis.outbound.http1 import Client, Resolve, UnreachedError, read_target
from tentalis.outbound.sync import AnswerTooLongError, guarded_client
from tests.outbound.hostile import CONFUSED, CONTROL, HOSTILE, KEY, NUMBERS, Canary

HEADERS = {"Authorization": f"Bearer {KEY}"}
NOBODYS = ["169.254.169.254", "169.254.0.1", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"]
NOBODYS += ["100.100.100.200", "fd00:ec2::254", "168.63.129.16", "192.0.0.192"]
PUBLIC = "93.184.215.14"


def resolve_here(host: str, port: int) -> list[str]:
    """As the system does, without asking any server: this machine's names and every way to write a number."""
    flags = 0 if host.lower().rstrip(".") == "localhost" else socket.AI_NUMERICHOST
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)]


class Network(httpcore.SyncBackend):
    """Connects on this machine, and only writes down what it was to connect to elsewhere."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def connect_tcp(self, host: str, port: int, *options: Any, **more: Any) -> httpcore.NetworkStream:
        self.asked.append(host)
        if not ip_address(host).is_loopback:
            raise httpcore.ConnectError("the world is not asked in tests")
        return super().connect_tcp(host, port, *options, **more)


def make_resolve(find: Callable[[str, int], list[str]]) -> Resolve:
    """As the event loop resolves."""

    async def resolve(host: str, port: int) -> list[Any]:
        kinds = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(kinds[":" in found], socket.SOCK_STREAM, 0, "", (found, port)) for found in find(host, port)]

    return resolve


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    with Canary() as server:
        yield server


def test_there_are_enough_of_them() -> None:
    assert len(set(HOSTILE)) >= 100


def test_the_canary_is_reached_by_who_is_not_guarded() -> None:
    """Else the tests below would pass without a guard."""
    with Canary() as server, httpx.Client(trust_env=False) as client:
        for url in ("http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://127.1:{port}/"):
            client.get(url.format(port=server.port), headers=HEADERS)
        assert [call[1]["Authorization"] for call in server.calls] == [f"Bearer {KEY}"] * 3


def test_a_hostile_address_is_not_reached_through_httpx(canary: Canary) -> None:
    network, answered = Network(), []
    with guarded_client(resolve=resolve_here, network=network) as client:
        for url in HOSTILE:
            with suppress(httpx.HTTPError, httpx.InvalidURL, BlockedAddressError, ValueError):
                client.get(url.format(port=canary.port), headers=HEADERS)
                answered.append(url)
            assert (canary.calls, network.asked) == ([], []), ascii(url)
    assert answered == []


async def test_a_hostile_address_is_not_reached_through_http1(canary: Canary) -> None:
    client, answered = Client({}, resolve=make_resolve(resolve_here)), []
    for url in HOSTILE:
        with suppress(UnreachedError, ValueError):
            await client.ask(read_target(url.format(port=canary.port)), None, HEADERS, silence_s=3)
            answered.append(url)
        assert canary.calls == [], ascii(url)
    assert answered == []


def test_what_parsers_read_differently_is_no_address_to_begin_with() -> None:
    for url in (*NUMBERS.split(), *CONFUSED.split(), *CONTROL):
        with pytest.raises(ValueError, match="must"):
            pytest.fail(f"taken: {check_url(url.format(port=8000))}, of {url!a}")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://lab:8000/v1", Origin("http", "lab", 8000)),
        ("https://API.example.com", Origin("https", "api.example.com", 443)),
        ("https://api.example.com.:443/v1", Origin("https", "api.example.com", 443)),
        ("http://[2001:4860:4860::8888]:8080/v1", Origin("http", "2001:4860:4860::8888", 8080)),
        ("http://my_model-1.svc.cluster.local", Origin("http", "my_model-1.svc.cluster.local", 80)),
        ("https://xn--bcher-kva.example/v1", Origin("https", "xn--bcher-kva.example", 443)),
        ("http://127.0.0.1:11434/v1", Origin("http", "127.0.0.1", 11434)),
    ],
)
def test_an_ordinary_address_has_an_origin(url: str, origin: Origin) -> None:
    assert check_url(url) == origin


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/%2e%2e/admin", "/./v1", "/v1/.%2E/x"])
def test_a_path_that_climbs_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="without dots"):
        check_url(f"http://lab:8000{path}")


def test_a_name_that_leads_here_and_elsewhere_is_refused_whole(canary: Canary) -> None:
    network = Network()
    words = r"evil\.example has no public address"
    with (
        guarded_client(resolve=lambda host, port: [PUBLIC, "127.0.0.1"], network=network) as client,
        pytest.raises(BlockedAddressError, match=words),
    ):
        client.get(f"http://evil.example:{canary.port}/", headers=HEADERS)
    assert (canary.calls, network.asked) == ([], [])


def find_nothing(host: str, port: int) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def test_a_name_that_nobody_knows_and_one_that_leads_inside_are_refused_in_the_same_words(canary: Canary) -> None:
    url, words = f"http://thing.example:{canary.port}/", set()
    for resolve in (find_nothing, lambda host, port: ["127.0.0.1"], lambda host, port: ["10.1.2.3"]):
        with guarded_client(resolve=resolve) as client, pytest.raises(BlockedAddressError) as refused:
            client.get(url)
        words.add(str(refused.value))
        with pytest.raises(UnreachedError) as failed:
            await Client({}, resolve=make_resolve(resolve)).ask(read_target(url), None, {}, silence_s=3)
        words.add(str(failed.value))
    assert len(words) == 1, words


def test_a_name_that_changes_its_mind_is_resolved_once_a_connection_and_looked_at_each_time(canary: Canary) -> None:
    """DNS rebinding: public when it is looked at, loopback when it is connected to."""
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    network = Network()
    with guarded_client(resolve=lambda host, port: next(answers), network=network) as client:
        with pytest.raises(httpx.ConnectError):
            client.get(f"http://evil.example:{canary.port}/", headers=HEADERS)
        assert network.asked == [PUBLIC], "the address looked at is the one connected to"
        with pytest.raises(BlockedAddressError):
            client.get(f"http://evil.example:{canary.port}/", headers=HEADERS)
    assert (canary.calls, network.asked) == ([], [PUBLIC])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with Canary() as target, Canary(status=status, headers={"Location": f"{target.url}/v1"}) as first:
        with guarded_client(allow_private=True) as client:
            response = client.get(f"{first.url}/", headers=HEADERS)
        assert response.status_code == status
        assert (len(first.calls), target.calls) == (1, [])


def test_a_bound_client_speaks_to_its_origin_alone() -> None:
    with Canary() as mine, Canary() as other:
        with guarded_client(allow_private=True, bound_to=check_url(mine.url), headers=HEADERS) as client:
            client.get(f"{mine.url}/v1")
            with pytest.raises(BlockedAddressError, match="speaks to"):
                client.get(f"{other.url}/v1")
        assert (len(mine.calls), other.calls) == (1, [])


def test_no_proxy_of_the_environment_is_asked(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, canary.url)
    network = Network()
    with guarded_client(network=network) as client, pytest.raises(httpx.ConnectError):
        client.get(f"http://{PUBLIC}/", headers=HEADERS)
    assert (canary.calls, network.asked) == ([], [PUBLIC])


def test_an_answer_that_is_too_long_is_not_read_to_its_end() -> None:
    with (
        Canary(body=b"x" * 5000) as server,
        guarded_client(allow_private=True, max_bytes=4000) as client,
        pytest.raises(AnswerTooLongError, match="4000 bytes"),
    ):
        client.get(server.url)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    with (
        Canary(body=b"x") as server,
        guarded_client(allow_private=True, total_s=-1.0) as client,
        pytest.raises(AnswerTooLongError, match="takes longer"),
    ):
        client.get(server.url)


def test_a_compressed_answer_that_nobody_asked_for_is_refused() -> None:
    with Canary(headers={"Content-Encoding": "gzip"}) as server, guarded_client(allow_private=True) as client:
        with pytest.raises(AnswerTooLongError, match="compressed"):
            client.get(server.url)
        assert server.calls[0][1]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "fd12::1", "100.64.0.1"])
def test_private_addresses_are_for_whom_an_admin_allowed_them(address: str) -> None:
    assert is_allowed(ip_address(address), allow_private=True)
    assert not is_allowed(ip_address(address), allow_private=False)


@pytest.mark.parametrize("address", [*NOBODYS, "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"])
def test_metadata_and_link_local_addresses_are_for_nobody(address: str) -> None:
    assert not is_allowed(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_for_everybody(address: str) -> None:
    assert is_allowed(ip_address(address), allow_private=False)


@given(st.ip_addresses())
def test_what_python_calls_not_global_is_never_reached(address: object) -> None:
    found = ip_address(str(address))
    if not found.is_global or found.is_multicast:
        mapped = getattr(found, "ipv4_mapped", None)
        assert mapped is not None or not is_allowed(found, allow_private=False)


@pytest.mark.thorough
def test_nothing_else_in_the_web_process_opens_connections() -> None:
    """The guard guards only what goes through it."""
    clients = {
        "httpx",
        "aiohttp",
        "tentalis.outbound.http1",
        "requests",
        "urllib3",
        "httpcore",
        "http.client",
        "urllib.request",
    }
    # openclaw.py names httpx's errors alone; what it sends goes through Transport
    allowed = (
        "tentalis/outbound/",
        "tentalis/client/",
        "apps/gateway/",
        "apps/webhooks/posting.py",
        "apps/inference/transport.py",
        "apps/inference/openclaw.py",
        "tentalis/plugin_process.py",  # in a process of its own, to the platform's own gateway
        "tentalis/sandbox/engine.py",  # in a sandbox host's own process, over the engine's socket
    )
    root = Path(__file__).parents[2]
    found = []
    for path in [*root.glob("apps/**/*.py"), *root.glob("tentalis/**/*.py")]:
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if not any(client in text for client in clients):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if clients & set(names) and not name.startswith(allowed):
                found.append(f"{name} imports {', '.join(names)}")
    assert not found
