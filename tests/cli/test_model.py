"""Model servers from the command line: set up, tried out, priced; a key is nowhere to be seen."""

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.inference.models import Price, Provider
from apps.inference.providers import open_key
from apps.workers.models import Worker
from tentalis.kept_models import write_manifest
from tentalis.platform.home import Home, write_private_file
from tentalis.platform.processes import process_identity
from tentalis.platform.state import StackState
from tests.apps.workers.base_files import write_base
from tests.cli.conftest import Run
from tests.factories import make_user
from tests.fakes import FakeModelServer

KEY = "sk-canary-0123456789"


@pytest.fixture
def as_admin(signed_in: Run, live_server: Any, tmp_path: Any) -> Run:
    admin = make_user("root", is_superuser=True)
    file = tmp_path / "admin-token"
    file.write_text(create_token(user=admin, name="t", scopes=Right.values, by=admin)[1])
    assert signed_in("login", "--url", live_server.url, "--token-file", str(file)).code == 0
    return signed_in


def test_a_server_is_added_and_tried_out_and_its_key_comes_from_a_variable(
    as_admin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    with FakeModelServer(usage={"prompt_tokens": 3, "completion_tokens": 1}) as server:
        made = as_admin(
            *("model", "setup", "lab", "--kind", "vllm", "--url", server.url, "--key-env", "LAB_KEY"),
            *("--allow-private", "-p", "shop"),
        )
        assert made.code == 0, made
        assert "lab is added" in made.out
        assert "what it says can be trained on" in made.out
        provider = Provider.objects.get(name="lab")
        assert open_key(provider) == KEY
        assert all(request.headers["Authorization"] == f"Bearer {KEY}" for request in server.requests)
        tested = as_admin("model", "test", "lab", "--json")
        assert (tested.code, tested.json["can_train"]) == (0, True)
        unknown = as_admin("model", "test", "lab", "-m", "no-such")
        assert unknown.code == 1
        assert "does not know this model" in unknown.out
        listed = as_admin("model", "servers")
    for outcome in (made, tested, unknown, listed, as_admin("model", "show", "lab")):
        assert KEY not in outcome.out + outcome.err
    assert "model" in listed.out


def test_a_private_address_says_how_it_is_allowed(signed_in: Run) -> None:
    refused = signed_in("model", "setup", "here", "--kind", "ollama", "--no-key", "--no-test")
    assert refused.code == 1
    assert "--allow-private" in refused.err
    assert "an admin allows it with “Allow private addresses”" in refused.err


def test_a_server_that_does_not_answer_is_kept_and_exit_is_1(as_admin: Run) -> None:
    made = as_admin(
        *("model", "setup", "gone", "--kind", "vllm", "--url", "http://127.0.0.1:9", "--no-key", "--allow-private"),
        *("-p", "shop"),
    )
    assert made.code == 1
    assert "nothing listens there" in made.out
    assert "tentalis model test gone" in made.out
    assert Provider.objects.get(name="gone").probe["fault"] == "refused_connection"


def test_a_key_is_never_an_argument(signed_in: Run) -> None:
    outcome = signed_in("model", "setup", "x", "--kind", "openai", "--key", KEY)
    assert outcome.code == 2
    assert signed_in("model", "setup", "x", "--kind", "openai", "--key-env", "NO_SUCH").code == 2
    assert not Provider.objects.exists()


@pytest.mark.parametrize("arguments", [(), ("x",), ("x", "--kind", "mainframe"), ("x", "--kind", "custom")])
def test_without_anybody_to_ask_what_is_missing_is_named(signed_in: Run, arguments: tuple[str, ...]) -> None:
    assert signed_in("model", "setup", *arguments, "--no-test").code == 2


def test_a_person_is_asked_for_what_is_missing_and_the_key_is_not_echoed(
    signed_in: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    hidden: list[str] = []

    def ask(prompt: str, *rest: Any, **more: Any) -> str:
        hidden.append(prompt)
        return KEY

    monkeypatch.setattr("sys.stdin", Terminal("mainframe\nopenai\ncloud\n"))
    monkeypatch.setattr("getpass.getpass", ask)  # a terminal's silence, which a test has none of
    made = signed_in("model", "setup", "--no-test")
    assert made.code == 0, made
    assert "no kind 'mainframe'" in made.out
    assert KEY not in made.out + made.err
    assert len(hidden) == 1, "the key is read without an echo"
    provider = Provider.objects.get(name="cloud")
    assert (provider.kind, open_key(provider)) == ("openai", KEY)


def test_a_server_is_changed_and_says_when_its_key_went(signed_in: Run) -> None:
    assert signed_in("model", "setup", "lab", "-k", "vllm", "--url", "http://lab:1", "--no-key", "--no-test").code == 0
    assert signed_in("model", "change", "lab").code == 2
    assert signed_in("model", "change", "lab", "--model", "qwen", "--off").code == 0
    assert signed_in("model", "change", "lab", "--requests-per-minute", "60", "--tokens-per-minute", "9").code == 0
    assert signed_in("model", "change", "lab", "--tokens-per-minute", "0").code == 0
    provider = Provider.objects.get(name="lab")
    assert (provider.default_model, provider.is_active) == ("qwen", False)
    assert (provider.requests_per_minute, provider.tokens_per_minute) == (60, None)
    Provider.objects.update(api_key_sealed=b"something")
    moved = signed_in("model", "change", "lab", "--url", "http://elsewhere:1")
    assert "Its key is gone" in moved.err
    assert signed_in("model", "unset", "lab").code == 0
    assert not Provider.objects.exists()


def test_a_worker_is_swapped_to_another_server(signed_in: Run) -> None:
    Worker.objects.update(kind="chat")
    Provider.objects.create(
        project=Worker.objects.get().project, name="lab", kind="vllm", base_url="http://lab", default_model="qwen"
    )
    swapped = signed_in("model", "swap", "echo", "lab")
    assert (swapped.code, swapped.out) == (0, "echo asks lab for qwen\n")
    worker = Worker.objects.get()
    assert (worker.provider.name if worker.provider else "", worker.base_model) == ("lab", "qwen")


def test_prices_are_set_listed_and_taken_back(signed_in: Run) -> None:
    signed_in("model", "setup", "cloud", "-k", "openai", "--no-key", "--no-test")
    done = signed_in("model", "prices", "--provider", "cloud", "--set", "gpt-5*=1.25,10,0.125", "--json")
    assert done.code == 0, done
    [row] = done.json
    assert (row["input"], row["output"], row["cached_input"]) == (1.25, 10, 0.125)
    for bad in ("gpt", "gpt=1", "gpt=1,x", "=1,2", "gpt=1,2,3,4", "gpt=-1,2"):
        assert signed_in("model", "prices", "--provider", "cloud", "--set", bad).code == 2
    assert signed_in("model", "prices", "--set", "gpt=1,2").code == 2
    assert signed_in("model", "prices", "--remove", str(row["id"])).code == 0
    assert not Price.objects.exists()


def test_what_was_paid_is_shown(signed_in: Run) -> None:
    shown = signed_in("model", "cost", "-p", "shop", "--json")
    assert (shown.code, shown.json["total"]["usd"]) == (0, 0)
    assert "all" in signed_in("model", "cost", "-p", "shop").out


def test_only_an_admin_renews_keys(signed_in: Run) -> None:
    refused = signed_in("model", "rotate-keys")
    assert refused.code == 1
    assert "an admin of the installation" in refused.err


def test_an_admin_renews_keys(as_admin: Run) -> None:
    done = as_admin("model", "rotate-keys", "--json")
    assert (done.code, done.json["unreadable"]) == (0, [])


def test_a_shared_server_is_granted_listed_and_revoked(as_admin: Run) -> None:
    assert as_admin("model", "setup", "cloud", "-k", "openai", "--no-key", "--no-test", "--shared").code == 0
    assert Provider.objects.get().granted_to == "listed"
    assert as_admin("model", "grant", "cloud", "shop", "--tokens-per-day", "1000").out == "shop may ask cloud\n"
    assert as_admin("model", "grant", "cloud", "shop", "--usd-per-month", "2.5").code == 0
    [row] = as_admin("model", "grants", "cloud", "--json").json
    assert (row["project"], row["tokens_per_day"], row["usd_per_month"]) == ("shop", None, 2.5)
    assert "cloud" in as_admin("model", "grants").out
    assert as_admin("model", "revoke", "cloud", "shop").code == 0
    assert as_admin("model", "revoke", "cloud", "shop").code == 2


def test_a_kept_model_is_removed_unless_a_worker_names_it(
    signed_in: Run, home: Path, live_server: LiveServer, tmp_path: Path, settings: Any
) -> None:
    for name in ("talk", "idle"):
        directory = write_base(home / "models" / name)
        write_manifest(directory, source="here", source_sha256="", licence="", template="", made_at="")
    settings.HOME, settings.TENTALIS = home, {**settings.TENTALIS, "INFERENCE_BACKEND": "engine"}
    assert signed_in("worker", "create", "talker", "--kind", "chat", "--base-model", "talk").code == 0
    place = Home(home)
    place.prepare()
    place.config_file.write_text("")
    unknown = signed_in("model", "remove", "idle")
    assert (unknown.code, "nobody can say which workers name it" in unknown.err) == (1, True)
    write_private_file(place.run / "admin-token", (tmp_path / "token").read_text())
    identity = process_identity(os.getpid())
    state = StackState(supervisor_pid=os.getpid(), supervisor_identity=identity, phase="ready", started_at=0.0)
    replace(state, addresses={"console_url": live_server.url}).write(place)
    kept = signed_in("model", "remove", "talk")
    assert (kept.code, "talk is not removed: named by shop/talker; --force" in kept.err) == (1, True)
    assert signed_in("model", "remove", "idle").out.startswith("idle is removed: ")
    forced = signed_in("model", "remove", "talk", "--force")
    assert (forced.code, "talk goes although named by shop/talker" in forced.err) == (0, True)
    assert [model["name"] for model in signed_in("model", "list", "--json").json] == ["apprentice"]
    gone = signed_in("model", "remove", "talk")
    assert (gone.code, "no model 'talk' is kept here" in gone.err) == (1, True)
