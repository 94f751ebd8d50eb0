"""Trying out a model server: what it can do, and every way it can fail, in words."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import NotAllowedError
from apps.inference.models import Provider
from apps.inference.probes import Probe, probe_provider
from apps.inference.providers import create_provider
from tests.factories import make_project, make_user
from tests.fakes import FakeModelServer

CALL = {"id": "t", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
USAGE = {"prompt_tokens": 5, "completion_tokens": 1}


class Vendor(FakeModelServer):
    """Answers with a status for some routes, wants a key, and streams."""

    key = "sk-right"
    statuses: dict[str, int] = {}
    streams = True
    counts_streams = True
    words = ("rea", "dy")

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if self.key and self.requests[-1].headers.get("Authorization") != f"Bearer {self.key}":
            return 401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, {}
        if path in self.statuses:
            return self.statuses[path], {"error": {"message": "so it is", "code": "x"}}, {}
        return super()._answer(path, body)

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/chat/completions" and body.get("stream") and self.streams:
            events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": word}}]} for word in self.words]
            if self.counts_streams and body.get("stream_options"):
                events.append({"choices": [], "usage": USAGE})
            said = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
            return 200, said + "data: [DONE]\n\n"
        return super()._serve(path, body)


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True)


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with Vendor(is_plain=True, models=["gpt", "gpt-mini"], tool_calls=[CALL], usage=USAGE) as server:
        yield server


def probe(project: Project, admin: User, url: str, **values: Any) -> Probe:
    defaults: dict[str, Any] = {"kind": "custom", "api_key": "sk-right", "allow_private": True, "name": "lab"}
    provider = create_provider(project=project, base_url=url, by=admin, **defaults | values)
    return probe_provider(provider=provider, by=admin)


class Watcher(Vendor):
    """Notes whether who asks holds a database connection meanwhile."""

    asker: Any = None

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        self.held.append(self.asker.connection is not None)
        return super()._answer(path, body)

    held: list[bool] = []


class Small(Vendor):
    """Says how much its models take, as vLLM and our engine do."""

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        status, said = super()._serve(path, body)
        if path == "/v1/models":
            said["data"][0]["max_model_len"] = 512
        return status, said


def test_a_test_says_how_long_a_conversation_may_be(project: Project, admin: User, vendor: Vendor) -> None:
    with Small(is_plain=True, models=["gpt"], tool_calls=[CALL], usage=USAGE) as server:
        found = probe(project, admin, server.url)
    assert found.context_tokens == 512
    assert "Prompt and answer may have 512 tokens together." in found.remarks
    silent = probe(project, admin, vendor.url, name="silent")
    assert silent.context_tokens is None
    assert any("longest answer" in remark for remark in silent.remarks)


@pytest.mark.django_db(transaction=True)
def test_no_connection_is_held_while_a_server_is_asked() -> None:
    root, project = make_user("root", is_superuser=True), make_project()
    with Watcher(is_plain=True, models=["gpt"], tool_calls=[CALL], usage=USAGE) as server:
        server.asker = connections[DEFAULT_DB_ALIAS]
        assert probe(project, root, server.url).ok
    assert server.held
    assert not any(server.held)


def test_a_vendor_that_tells_no_tokens_answers_streams_and_calls_tools(
    project: Project, admin: User, vendor: Vendor
) -> None:
    found = probe(project, admin, vendor.url, kind="custom")
    assert found.ok, found
    assert (found.is_reachable, found.accepts_key, found.knows_model) == (True, True, True)
    assert (found.streams, found.calls_tools, found.tells_tokens, found.can_train) == (True, True, False, False)
    assert found.model == "gpt"
    assert found.latency_ms is not None
    assert found.first_token_ms is not None
    assert "cannot be trained on" in found.words
    stored = Provider.objects.get()
    assert stored.probe["ok"] is True
    assert stored.probed_at is not None
    assert AuditEntry.objects.get(kind="provider.tested").payload == {"ok": True, "fault": "", "model": "gpt"}


def test_a_server_that_tells_its_tokens_can_be_trained_on(project: Project, admin: User) -> None:
    with Vendor(usage=USAGE) as server:
        server.key = ""
        found = probe(project, admin, server.url, kind="vllm", api_key="")
    assert (found.tells_tokens, found.tells_logprobs, found.can_train) == (True, True, True)
    assert found.accepts_key is None
    assert "can be trained on" in found.words


def test_a_model_that_tells_no_log_probs_is_asked_again_without(project: Project, admin: User) -> None:
    class Shy(Vendor):
        def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
            if body.get("logprobs"):
                return 400, {"error": {"message": "logprobs are not supported with reasoning models"}}
            return super()._serve(path, body)

    with Shy(is_plain=True) as server:
        found = probe(project, admin, server.url, kind="openai")
    assert found.ok
    assert found.tells_logprobs is False
    assert "This model refuses to tell log-probs." in found.remarks


def test_words_that_hold_what_separates_lines_elsewhere_are_streamed(
    project: Project, admin: User, vendor: Vendor
) -> None:
    vendor.words = ("a\u2028b", "c\x85d")
    found = probe(project, admin, vendor.url)
    assert found.streams
    assert not any("stream" in remark for remark in found.remarks)


def test_a_server_that_ignores_the_wish_to_stream_is_told_apart(project: Project, admin: User, vendor: Vendor) -> None:
    vendor.streams = False
    found = probe(project, admin, vendor.url)
    assert (found.ok, found.streams) == (True, False)


def test_streams_that_count_nothing_are_remarked_on(project: Project, admin: User, vendor: Vendor) -> None:
    vendor.counts_streams = False
    assert any("streams do not count" in remark for remark in probe(project, admin, vendor.url).remarks)


def test_a_wrong_key_is_told_as_such(project: Project, admin: User, vendor: Vendor) -> None:
    found = probe(project, admin, vendor.url, api_key="sk-wrong")
    assert (found.ok, found.fault, found.is_reachable, found.accepts_key) == (False, "key", True, False)
    assert "the key is not accepted" in found.words
    assert "sk-wrong" not in json.dumps(Provider.objects.get().probe)


def test_an_unknown_model_is_told_with_those_there_are(project: Project, admin: User, vendor: Vendor) -> None:
    found = probe(project, admin, vendor.url, default_model="gtp")
    assert (found.fault, found.knows_model, found.accepts_key) == ("model", False, None)
    assert "It serves gpt, gpt-mini." in found.remarks


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (402, "payment"),
        (403, "key"),
        (404, "dialect"),
        (405, "dialect"),
        (429, "limited"),
        (500, "broken"),
        (422, "refused"),
    ],
)
def test_every_status_has_its_words(project: Project, admin: User, vendor: Vendor, status: int, fault: str) -> None:
    vendor.statuses = {"/v1/chat/completions": status}
    found = probe(project, admin, vendor.url)
    assert (found.ok, found.fault) == (False, fault)
    assert "so it is" in found.words


def test_a_server_without_a_list_of_models_is_asked_for_the_one_named(
    project: Project, admin: User, vendor: Vendor
) -> None:
    vendor.statuses = {"/v1/models": 404}
    assert probe(project, admin, vendor.url).fault == "dialect"
    assert probe(project, admin, vendor.url, name="lab-2", default_model="gpt").ok


def test_another_dialect_is_told_as_such(project: Project, admin: User) -> None:
    with FakeModelServer(mode="garbage") as server:
        found = probe(project, admin, server.url)
    assert found.fault == "dialect"
    assert "not as OpenAI's API does" in found.words


def test_a_redirect_is_told_with_its_target(project: Project, admin: User) -> None:
    with FakeModelServer(mode="redirecting") as server:
        found = probe(project, admin, server.url)
    assert found.fault == "redirect"
    assert "elsewhere" in found.words


def test_a_port_where_nothing_listens(project: Project, admin: User) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        found = probe(project, admin, f"http://127.0.0.1:{unheard.getsockname()[1]}")
    assert (found.fault, found.is_reachable) == ("refused_connection", False)
    assert "nothing listens there" in found.words


def test_a_name_that_does_not_exist(project: Project, admin: User) -> None:
    found = probe(project, admin, "http://no-such-host.invalid")
    assert found.fault == "dns"
    assert "is it spelt right?" in found.words


def test_plain_http_where_tls_is_spoken_to(project: Project, admin: User, vendor: Vendor) -> None:
    found = probe(project, admin, vendor.url.replace("http://", "https://"))
    assert found.fault == "tls"
    assert "plain http" in found.words


def test_a_certificate_that_nobody_vouches_for(project: Project, admin: User, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_make_certificate(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_shake_hands, args=(listener, context), daemon=True)
        thread.start()
        found = probe(project, admin, f"https://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert found.fault == "tls"
    assert "certificate does not hold" in found.words


def test_a_private_address_that_nobody_allowed_says_how_to(project: Project, admin: User, vendor: Vendor) -> None:
    provider = Provider.objects.create(project=project, name="lab", kind="custom", base_url=vendor.url)
    found = probe_provider(provider=provider, by=admin)
    assert found.fault == "address"
    assert "tentalis model change NAME --allow-private" in found.words
    assert vendor.requests == []


@pytest.mark.parametrize("kind", ["custom", "zhipu"])
def test_a_test_tells_nobody_which_names_are_known_inside(project: Project, alice: User, kind: str) -> None:
    found = []
    for host in ("localhost", "no-such-host.invalid"):
        provider = Provider.objects.create(
            project=project, name=host.partition(".")[0], kind=kind, base_url=f"http://{host}:1", default_model="m"
        )
        probe_provider(provider=provider, by=alice)
        found.append(str(provider.probe).replace(host, "HOST"))
    assert "has no public address that could be found" in found[0]
    assert found[0] == found[1]


def test_a_key_that_does_not_open_is_told(project: Project, admin: User, vendor: Vendor) -> None:
    provider = Provider.objects.create(
        project=project, name="lab", kind="custom", base_url=vendor.url, api_key_sealed=b"x:y", allow_private=True
    )
    assert probe_provider(provider=provider, by=admin).fault == "sealed_key"


def test_who_does_not_run_the_workers_spends_nothing(project: Project, bob: User, vendor: Vendor) -> None:
    provider = Provider.objects.create(
        project=project, name="lab", kind="custom", base_url=vendor.url, allow_private=True
    )
    with pytest.raises(NotAllowedError):
        probe_provider(provider=provider, by=bob)
    assert vendor.requests == []


def _make_certificate(folder: Path) -> tuple[str, str]:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = folder / "cert.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = folder / "key.pem"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(certificate), str(private)


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listener.accept()
    with connection:
        try:
            context.wrap_socket(connection, server_side=True).close()
        except (ssl.SSLError, OSError):
            return


def test_a_server_that_takes_for_ever_holds_nobody_for_longer_than_said(
    project: Project, admin: User, vendor: Vendor
) -> None:
    class Sleeper(Vendor):
        def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
            if body.get("stream"):
                released.wait(120)
            return super()._serve(path, body)

    released = threading.Event()
    with Sleeper(is_plain=True, models=["gpt"], tool_calls=[CALL], usage=USAGE) as server:
        provider = create_provider(
            project=project,
            base_url=server.url,
            by=admin,
            kind="custom",
            api_key="sk-right",
            allow_private=True,
            name="lab",
        )
        started = time.monotonic()
        found = probe_provider(provider=provider, by=admin, most_s=1.0)
        took_s = time.monotonic() - started
        released.set()
    assert took_s < 8
    assert found.is_reachable
    assert found.streams is None
    assert "longer than 1 s" in found.words + " ".join(found.remarks)
    assert provider.probe["fault"] == found.fault
