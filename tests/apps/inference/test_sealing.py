"""API keys at rest: bound to their row, renewed while everything runs, and in no dump."""

import ast
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.test import override_settings

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.base.errors import NotAllowedError
from apps.base.sealing import SealedKeyError, add_key, drop_keys, read_ring, seal, unseal
from apps.inference.models import Provider
from apps.inference.providers import change_provider, create_provider, open_key
from apps.inference.rotation import find_keys_in_use, find_sealed_fields, rotate_keys
from tests.factories import make_project, make_user


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Path]:
    """A ring's file, empty yet."""
    path = tmp_path / "ring"
    with override_settings(TENTALIS=settings.TENTALIS | {"KEY_RING": path}):
        yield path


@pytest.fixture
def admin(db: None) -> User:
    return make_user("root", is_superuser=True)


def make_provider(project: Project | None, by: User, name: str = "lab", **values: Any) -> Provider:
    defaults = {"kind": "vllm", "base_url": "http://lab:8000/v1", "api_key": f"sk-{name}"}
    return create_provider(project=project, name=name, by=by, **defaults | values)


def test_a_secret_opens_with_the_words_it_was_bound_to_and_with_no_others() -> None:
    sealed = seal("sk-1", bound_to="row 1")
    assert unseal(sealed, bound_to="row 1") == "sk-1"
    for words in ("row 2", "", "row 1 "):
        with pytest.raises(SealedKeyError, match="another row or another address"):
            unseal(sealed, bound_to=words)


def test_no_secret_is_sealed_as_nothing() -> None:
    assert seal("") == b""
    assert unseal(b"") == ""


def test_one_secret_sealed_twice_does_not_look_the_same() -> None:
    assert seal("sk-1") != seal("sk-1")


def test_a_key_sealed_under_another_secret_says_so() -> None:
    sealed = seal("sk-1")
    with override_settings(SECRET_KEY="a-new-one"), pytest.raises(SealedKeyError, match="TENTALIS_SECRET_KEY"):
        unseal(sealed)


def test_a_key_sealed_under_a_fallback_secret_opens() -> None:
    with override_settings(SECRET_KEY="the-old-one"):
        sealed = seal("sk-1")
    with override_settings(SECRET_KEY="a-new-one", SECRET_KEY_FALLBACKS=["the-old-one"]):
        assert unseal(sealed) == "sk-1"


@pytest.mark.parametrize("junk", [b"x", b":", b"no key:here", b"\xff\xfe:x", b"0" * 400])
def test_what_is_no_ciphertext_is_unreadable_and_no_crash(junk: bytes) -> None:
    with pytest.raises(SealedKeyError):
        unseal(junk)


def test_ciphertexts_swapped_between_rows_do_not_open(project: Project, alice: User) -> None:
    one, two = make_provider(project, alice, "one"), make_provider(project, alice, "two")
    Provider.objects.filter(pk=one.pk).update(api_key_sealed=two.api_key_sealed)
    with pytest.raises(SealedKeyError, match="another row"):
        open_key(Provider.objects.get(pk=one.pk))


def test_a_row_moved_to_another_project_by_hand_does_not_open(project: Project, alice: User) -> None:
    provider = make_provider(project, alice)
    Provider.objects.filter(pk=provider.pk).update(project=make_project("other"))
    with pytest.raises(SealedKeyError):
        open_key(Provider.objects.get(pk=provider.pk))


@pytest.mark.parametrize(
    "update", [{"base_url": "http://evil.example/v1"}, {"more_urls": ["http://evil.example/v1"]}], ids=str
)
def test_a_row_whose_address_was_changed_by_hand_gives_its_key_to_nobody(
    project: Project, alice: User, update: dict[str, Any]
) -> None:
    provider = make_provider(project, alice)
    Provider.objects.filter(pk=provider.pk).update(**update)
    with pytest.raises(SealedKeyError, match="another address"):
        open_key(Provider.objects.get(pk=provider.pk))


def test_a_key_stays_with_its_origin_and_leaves_with_it(project: Project, alice: User) -> None:
    provider = make_provider(project, alice, more_urls=["http://lab-2:8000/v1"])
    provider = change_provider(provider=provider, by=alice, base_url="http://lab:8000/other/v1")
    assert open_key(provider) == "sk-lab", "another path of the same origin"
    provider = change_provider(provider=provider, by=alice, more_urls=[])
    assert open_key(provider) == "sk-lab", "one origin fewer"
    provider = change_provider(provider=provider, by=alice, more_urls=["http://lab-3:8000"])
    assert open_key(provider) == "", "an origin that the key was not given for"


def test_the_ring_is_read_again_when_its_file_changes(ring: Path) -> None:
    old = seal("sk-1")
    assert add_key(ring) == read_ring().newest
    new = seal("sk-1")
    assert old[:16] != new[:16]
    assert unseal(old) == unseal(new) == "sk-1", "the secret key goes on opening"
    assert ring.stat().st_mode & 0o777 == 0o600


def test_a_renewed_ring_is_read_by_whoever_could_read_it_before(ring: Path) -> None:
    add_key(ring)
    group = 1234 if os.geteuid() == 0 else os.getegid()
    os.chown(ring, -1, group)
    ring.chmod(0o640)
    before = ring.stat()
    first = add_key(ring)
    assert drop_keys(ring, keep={first}) != []
    now = ring.stat()
    assert (now.st_uid, now.st_gid, now.st_mode & 0o777) == (before.st_uid, group, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_ring_that_would_change_hands_is_left_as_it_is(db: None) -> None:
    with TemporaryDirectory() as directory:  # pytest's own are for root alone
        ring = Path(directory, "ring")
        with override_settings(TENTALIS=settings.TENTALIS | {"KEY_RING": ring}):
            add_key(ring)
            ring.chmod(0o644)
            Path(directory).chmod(0o777)
            before = ring.read_text()
            os.seteuid(65534)
            try:
                with pytest.raises(CommandError, match="must keep its owner, group and mode"):
                    call_command("rotate_keys", "--new-key")
            finally:
                os.seteuid(0)
        assert ring.read_text() == before
        assert list(Path(directory).iterdir()) == [ring]


def test_a_short_key_in_the_ring_is_told_and_not_shown(ring: Path) -> None:
    ring.write_text("# newest first\nhunter2\n")
    with pytest.raises(SealedKeyError, match=r"key 1 of .* shorter than 32") as raised:
        seal("sk-1")
    assert "hunter2" not in str(raised.value)


def test_only_an_admin_renews_keys(alice: User) -> None:
    with pytest.raises(NotAllowedError, match="an admin of the installation"):
        rotate_keys(by=alice)


ROOT = Path(__file__).parents[3]
SEALING = {
    "apps/accounts/second_factor.py": {"accounts.AuthenticatorApp.secret_sealed"},
    "apps/conversations/forgotten.py": {"conversations.Forgetting.sealed_subject"},
    "apps/inference/providers.py": {"inference.Provider.api_key_sealed"},
    "apps/webhooks/installation.py": {"webhooks.Webhook.secret_sealed"},
    "apps/webhooks/secrets.py": {"webhooks.Webhook.secret_sealed", "webhooks.Webhook.old_secret_sealed"},
}
"""Modules that seal, and the fields that what they sealed is kept in."""


def test_every_field_that_holds_what_a_module_sealed_is_renewed() -> None:
    sealing = {path.relative_to(ROOT).as_posix() for path in (ROOT / "apps").rglob("*.py") if imports_seal(path)}
    assert sealing == {"apps/inference/rotation.py", *SEALING}
    renewed = {f"{model._meta.label}.{name}" for model, name in find_sealed_fields()}
    assert renewed == set().union(*SEALING.values())


def imports_seal(path: Path) -> bool:
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return any(node.module == "apps.base.sealing" and "seal" in {one.name for one in node.names} for node in imports)


def test_a_secret_that_no_key_opens_is_told_and_left_alone(project: Project, admin: User, ring: Path) -> None:
    good, bad = make_provider(project, admin, "good"), make_provider(project, admin, "bad")
    Provider.objects.filter(pk=bad.pk).update(api_key_sealed=b"0123456789abcdef:gone")
    add_key(ring)
    rotation = rotate_keys(by=admin)
    assert (rotation.renewed, rotation.unreadable) == (1, [f"inference_provider {bad.pk}"])
    assert open_key(Provider.objects.get(pk=good.pk)) == "sk-good"
    assert bytes(Provider.objects.get(pk=bad.pk).api_key_sealed) == b"0123456789abcdef:gone"


def test_a_renewal_that_broke_off_goes_on_where_it_was(project: Project, admin: User, ring: Path) -> None:
    rows = [make_provider(project, admin, f"p{place}") for place in range(5)]
    add_key(ring)
    change_provider(provider=rows[0], by=admin, api_key="sk-p0")  # as if done before it broke off
    assert rotate_keys(by=admin).renewed == 4
    assert rotate_keys(by=admin).renewed == 0
    assert find_keys_in_use() == {read_ring().newest}
    assert AuditEntry.objects.filter(kind="provider.keys_rotated").count() == 2


def test_old_keys_leave_the_ring_once_nothing_needs_them(project: Project, admin: User, ring: Path) -> None:
    first = add_key(ring)
    provider = make_provider(project, admin)
    second = add_key(ring)
    assert drop_keys(ring, keep=find_keys_in_use()) == []
    rotate_keys(by=admin)
    assert drop_keys(ring, keep=find_keys_in_use()) == [first]
    assert read_ring().newest == second
    assert open_key(Provider.objects.get(pk=provider.pk)) == "sk-lab"


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_a_thousand_keys_are_renewed_while_others_read_and_change_them(tmp_path: Path) -> None:
    project, admin, path = make_project(), make_user("root", is_superuser=True), tmp_path / "ring"
    with override_settings(TENTALIS=settings.TENTALIS | {"KEY_RING": path}):
        rows = Provider.objects.bulk_create(
            Provider(project=project, name=f"p{place}", kind="vllm", base_url=f"http://h{place}:8000")
            for place in range(1000)
        )
        for row in rows:
            row.api_key_sealed = seal(f"sk-{row.name}", bound_to=row.sealed_for("api_key_sealed"))
        Provider.objects.bulk_update(rows, ["api_key_sealed"], batch_size=200)
        add_key(path)
        faults: list[str] = []
        reads = 0
        done = threading.Event()

        def read() -> None:
            nonlocal reads
            while not done.wait(0.02):
                for row in Provider.objects.order_by("?")[:20]:
                    reads += 1
                    if open_key(row) not in {f"sk-{row.name}", f"new-{row.name}"}:
                        faults.append(row.name)
            connections.close_all()

        def change() -> None:
            for row in rows[::50]:
                change_provider(provider=row, by=admin, api_key=f"new-{row.name}")
            connections.close_all()

        threads = [threading.Thread(target=target) for target in (read, read, change)]
        for thread in threads:
            thread.start()
        rotation = rotate_keys(by=admin)
        done.set()
        for thread in threads:
            thread.join()
        assert (faults, rotation.unreadable) == ([], [])
        assert reads > 0
        assert find_keys_in_use() == {read_ring().newest}
        kept = {row.name: open_key(row) for row in Provider.objects.all()}
        changed = {row.name for row in rows[::50]}
        assert kept == {row.name: ("new-" if row.name in changed else "sk-") + row.name for row in rows}


@pytest.mark.django_db(transaction=True)
def test_a_dump_of_the_database_holds_no_key() -> None:
    project, alice = make_project(), make_user("alice")
    secret = "sk-canary-Zz0123456789"
    provider = make_provider(project, alice, api_key=secret)
    change_provider(provider=provider, by=alice, name="renamed")
    change_provider(provider=provider, by=alice, api_key=f"{secret}-2")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
        )
        tables = [name for (name,) in cursor.fetchall()]
        dump = b""
        for table in tables:
            with cursor.copy(f'COPY "{table}" TO STDOUT') as copy:
                dump += b"".join(bytes(block) for block in copy)
    assert b"renamed" in dump
    for form in (secret, secret.encode().hex()):
        assert form.encode() not in dump


def test_the_command_makes_a_key_renews_all_and_drops_what_nothing_needs(
    project: Project, admin: User, ring: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_key(ring)
    provider = make_provider(project, admin)
    call_command("rotate_keys", "--new-key", "--drop-old")
    said = capsys.readouterr().out
    assert "1 secrets are sealed anew" in said
    assert "1 old keys are dropped" in said
    assert len(ring.read_text().split()) == 1
    assert ring.read_text().strip() not in said
    assert open_key(Provider.objects.get(pk=provider.pk)) == "sk-lab"


def test_without_a_ring_the_command_says_how_to_get_one(db: None) -> None:
    with pytest.raises(CommandError, match="TENTALIS_KEY_RING is not set"):
        call_command("rotate_keys", "--new-key")
