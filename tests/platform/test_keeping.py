"""Backups: whole or not there, sealed, and brought back into a fresh cluster where everything goes on."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from apps.accounts.models import Member, Project, Role
from apps.adapters.models import Adapter
from apps.audit.chain import seal_entries, verify_chain
from apps.audit.models import AuditEntry, AuditEpoch
from apps.audit.services import record
from apps.base.sealing import add_key
from apps.inference.models import Provider
from apps.inference.providers import create_provider, open_key
from apps.webhooks.enqueueing import enqueue_all
from apps.webhooks.models import Delivery
from apps.webhooks.services import create_webhook
from tentalis.cli import main
from tentalis.kept_models import models_directory
from tentalis.platform.config import load_config
from tentalis.platform.errors import BackupError, BackupUnderWayError, HomeError, RestoreError
from tentalis.platform.home import Home
from tentalis.platform.keeping.place import Keys, Place
from tentalis.platform.keeping.repository import MANIFEST, KeptFile, Manifest, Mark, Repository
from tentalis.platform.keeping.restoring import restore_backup
from tentalis.platform.keeping.sealing import Content, make_key, seal, unseal
from tentalis.platform.keeping.taking import link_segments, linked_spool, take_backup
from tentalis.platform.processes import process_identity
from tentalis.platform.up import refuse_half_restored, running_stack
from tests.apps.adapters.desk_adapters import make_served
from tests.factories import make_project, make_user, make_worker
from tests.support.clusters import own_address, use_up_transactions, working_on

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.broker]

WORDS = "the plan nobody may read"


@pytest.fixture
def place(home: Home, environ: dict[str, str]) -> Place:
    """An installation on the tests' own database."""
    return Place.find(home, environ | {"TENTALIS_DATABASE_URL": own_address()})


@pytest.fixture
def keys(place: Place) -> Keys:
    return place.find_keys()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "backups")


@pytest.fixture
def shop() -> Project:
    shop = make_project()
    Project.objects.filter(pk=shop.pk).update(name=WORDS)
    return shop


@pytest.fixture
def artifact(place: Place) -> Path:
    path = place.artifacts / "notes" / "plan.txt"
    path.parent.mkdir(parents=True)
    path.write_text(WORDS)
    return path


def files_of(repository: Repository) -> list[Path]:
    return sorted(path for path in repository.root.rglob("*") if path.is_file())


def say(shop: Project, count: int) -> list[int]:
    return [record("task.done", subject=shop, by="test", project_id=shop.pk).pk for _ in range(count)]


def told() -> list[int | None]:
    enqueue_all()
    return list(Delivery.objects.order_by("pk").values_list("entry_id", flat=True))


@pytest.mark.slow
def test_a_backup_comes_back_whole_in_a_fresh_cluster_and_the_installation_goes_on(
    place: Place, keys: Keys, repository: Repository, shop: Project, artifact: Path, tmp_path: Path
) -> None:
    owner = make_user("olga", is_superuser=True)
    Member.objects.create(project=shop, user=owner, role=Role.OWNER)
    adapter = make_served(make_worker(shop), 1, place.artifacts)
    spooled = place.spool / "gateway-1" / "000000000000.spool"
    spooled.parent.mkdir(parents=True)
    spooled.write_bytes(b"what an agent was answered")
    use_up_transactions(3000)
    create_webhook(project=shop, url="http://127.0.0.1:9/", by=owner, allow_private=True)
    old = say(shop, 3)
    assert sum(iter(seal_entries, 0))
    assert told()[-3:] == old
    waiting = say(shop, 2)
    before = list(Delivery.objects.order_by("pk").values_list("entry_id", flat=True))

    manifest = take_backup(place, repository, keys)
    after_the_mark = say(shop, 1)
    assert manifest.mark.entry_id == waiting[-1] < after_the_mark[0]
    home = Home(tmp_path / "elsewhere" / "home")
    environ = {name: value for name, value in place.environ.items() if name != "TENTALIS_DATABASE_URL"}
    restored = restore_backup(home, environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    assert restored.faults == ()
    assert restored.checked["adapters"] == 1

    assert (home.artifacts / "notes" / "plan.txt").read_text() == WORDS
    assert (home.root / "spool" / "gateway-1" / "000000000000.spool").read_bytes() == b"what an agent was answered"
    assert load_config(home).secrets.secret_key == place.secret_key
    assert not home.restoring_file.exists()
    with (
        running_stack(home, environ, is_throwaway=True, only=["postgres"]) as stack,
        working_on(stack.state().addresses["admin_database_url"]),
    ):
        report = verify_chain()
        assert (report.faults, report.unsealed) == ([], 0)
        assert AuditEpoch.objects.count() == 2
        assert not AuditEntry.objects.filter(kind="task.done", pk=after_the_mark[0]).exists()
        assert Adapter.objects.get(pk=adapter.pk).uri.startswith(home.artifacts.as_uri())
        new = say(shop, 2)
        assert sum(iter(seal_entries, 0)) == 2
        assert (verify_chain().faults, told()) == ([], before + waiting + new)


def test_a_second_backup_writes_no_file_again_that_is_the_same(
    place: Place, keys: Keys, repository: Repository, shop: Project, artifact: Path
) -> None:
    first = take_backup(place, repository, keys)
    objects = {path: path.stat().st_mtime_ns for path in files_of(repository) if "objects" in path.parts}
    (artifact.parent / "copy.txt").write_text(WORDS)
    (artifact.parent / "new.txt").write_text("another")
    second = take_backup(place, repository, keys)
    now = {path: path.stat().st_mtime_ns for path in files_of(repository) if "objects" in path.parts}
    assert (len(objects), len(now), len(second.artifacts)) == (1, 2, 3)
    assert objects.items() <= now.items()
    assert repository.ids() == [first.id, second.id] == sorted([first.id, second.id])
    (artifact.parent / "new.txt").unlink()
    (repository.directory_of(second.id) / MANIFEST).write_text("{")
    words: list[str] = []
    third = take_backup(place, repository, keys, say=words.append)
    assert "manifest.json cannot be read" in words[0]
    assert repository.drop_old(1) == 2
    assert repository.ids() == [third.id]
    assert len([path for path in files_of(repository) if "objects" in path.parts]) == 1


def test_a_stolen_backup_opens_nothing_and_each_key_only_its_part(
    place: Place, keys: Keys, repository: Repository, shop: Project, artifact: Path, tmp_path: Path
) -> None:
    manifest = take_backup(place, repository, keys)
    secret = place.secret_key.encode()
    for path in files_of(repository):
        data = path.read_bytes()
        assert secret not in data
        assert WORDS.encode() not in data
        assert path.stat().st_mode & 0o077 == 0
    directory = repository.directory_of(manifest.id)
    for name, wrong in (
        ("database.age", keys.secrets),
        ("keys.age", keys.data),
        ("database.age", make_key(tmp_path / "k")),
    ):
        with pytest.raises(BackupError, match="sealed for another key"):
            unseal(directory / name, wrong)
    assert unseal(directory / "database.age", keys.data) == manifest.database


def test_a_backup_that_breaks_off_leaves_nothing_that_looks_whole(
    place: Place, keys: Keys, repository: Repository, shop: Project, tmp_path: Path
) -> None:
    def break_off(words: str) -> None:
        if words.startswith("files:"):  # the database lies there by then
            assert [path.name for path in files_of(repository) if path.parent.name.startswith(".")] == ["database.age"]
            raise BackupError("the disk is gone")

    with pytest.raises(BackupError, match="the disk is gone"):
        take_backup(place, repository, keys, say=break_off)
    assert repository.ids() == []
    assert list((repository.root / "backups").iterdir()) == []
    (repository.root / "backups" / ".20200101T000000Z-dead").mkdir()  # of one that was killed
    with pytest.raises(BackupError, match="no backup at all"):
        repository.read()
    manifest = take_backup(place, repository, keys)
    assert [path.name for path in (repository.root / "backups").iterdir()] == [manifest.id]


def test_without_the_ring_of_keys_that_is_named_nothing_is_backed_up(
    place: Place, keys: Keys, repository: Repository, tmp_path: Path
) -> None:
    environ = {**place.environ, "TENTALIS_KEY_RING": str(tmp_path / "missing")}
    with pytest.raises(BackupError, match=r"TENTALIS_KEY_RING: .*missing cannot be read"):
        take_backup(Place.find(place.home, environ), repository, keys)
    assert repository.ids() == []


class RenewedAtFirst(Place):
    """An installation whose keys are renewed once a backup has begun, and before it has its snapshot."""

    @contextmanager
    def database(self) -> Iterator[str]:
        with super().database() as address:
            call_command("rotate_keys", "--new-key", "--drop-old")
            yield address


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RenewedAtFirst, Place], ids=["before its snapshot", "after it"])
def test_a_backup_across_a_renewal_of_keys_opens_its_secrets(
    place: Place, keys: Keys, repository: Repository, shop: Project, tmp_path: Path, kind: type[Place]
) -> None:
    def renew(words: str) -> None:
        if kind is Place and words.startswith("files:"):
            call_command("rotate_keys", "--new-key", "--drop-old")

    ring = tmp_path / "ring"
    add_key(ring)
    (old,) = ring.read_text().split()
    found = kind.find(place.home, {**place.environ, "TENTALIS_KEY_RING": str(ring)})
    with override_settings(TENTALIS=settings.TENTALIS | {"KEY_RING": ring}):
        owner = make_user("olga", is_superuser=True)
        values = {"kind": "vllm", "base_url": "http://lab:8000/v1", "api_key": "sk-lab"}
        create_provider(project=None, name="lab", by=owner, **values)
        take_backup(found, repository, keys, say=renew)
    assert len(ring.read_text().split()) == 1
    assert old not in ring.read_text()
    home = Home(tmp_path / "back")
    environ = {name: value for name, value in place.environ.items() if name != "TENTALIS_DATABASE_URL"}
    restore_backup(home, environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    back = Path(str(load_config(home).settings["key_ring"]))
    with (
        running_stack(home, environ, is_throwaway=True, only=["postgres"]) as stack,
        working_on(stack.state().addresses["admin_database_url"]),
        override_settings(TENTALIS=settings.TENTALIS | {"KEY_RING": back}),
    ):
        assert open_key(Provider.objects.get(name="lab")) == "sk-lab"


@pytest.mark.slow
def test_a_backup_comes_back_where_the_secret_key_is_a_newer_one_and_opens_its_secrets(
    place: Place, keys: Keys, repository: Repository, shop: Project, tmp_path: Path
) -> None:
    owner = make_user("olga", is_superuser=True)
    values = {"kind": "vllm", "base_url": "http://lab:8000/v1", "api_key": "sk-lab"}
    create_provider(project=None, name="lab", by=owner, **values)
    found = Place.find(place.home, {**place.environ, "TENTALIS_SECRET_KEY": settings.SECRET_KEY})
    take_backup(found, repository, keys)
    home, newer = Home(tmp_path / "back"), "n" * 50
    environ = {name: value for name, value in place.environ.items() if name != "TENTALIS_DATABASE_URL"}
    environ["TENTALIS_SECRET_KEY"] = newer
    said: list[str] = []
    restored = restore_backup(home, environ, repository, data_key=keys.data, secrets_key=keys.secrets, say=said.append)
    assert (restored.faults, restored.has_secrets) == ((), True)
    assert any("TENTALIS_SECRET_KEY is not the backup's" in words for words in said)
    config = load_config(home)
    back = Path(config.settings.get("key_ring", tmp_path / "none"))
    with (
        running_stack(home, environ, is_throwaway=True, only=["postgres"]) as stack,
        working_on(stack.state().addresses["admin_database_url"]),
        override_settings(SECRET_KEY=newer, TENTALIS=settings.TENTALIS | {"KEY_RING": back}),
    ):
        assert open_key(Provider.objects.get(name="lab")) == "sk-lab"


def test_a_ring_without_a_key_of_the_backup_is_refused_before_anything_is_written(
    place: Place, keys: Keys, repository: Repository, shop: Project, tmp_path: Path
) -> None:
    older, newer = tmp_path / "older", tmp_path / "newer"
    add_key(older)
    add_key(newer)
    take_backup(Place.find(place.home, {**place.environ, "TENTALIS_KEY_RING": str(older)}), repository, keys)
    home = Home(tmp_path / "back")
    said: list[str] = []
    with pytest.raises(RestoreError, match=r"TENTALIS_KEY_RING: .*newer lacks 1 of the 1 keys .* unset it"):
        restore_backup(
            home,
            {**place.environ, "TENTALIS_KEY_RING": str(newer)},
            repository,
            data_key=keys.data,
            secrets_key=keys.secrets,
            say=said.append,
        )
    assert not home.root.exists()
    assert said == []


def test_another_key_than_the_backups_own_is_refused_in_words_before_anything_is_written(
    place: Place, keys: Keys, repository: Repository, shop: Project, artifact: Path, tmp_path: Path
) -> None:
    manifest = take_backup(place, repository, keys)
    home, renewed = Home(tmp_path / "back"), make_key(tmp_path / "renewed")
    said: list[str] = []
    for data, secret, file in ((renewed, keys.secrets, "database.age"), (keys.data, renewed, "keys.age")):
        with pytest.raises(BackupError, match=rf"{manifest.id}/{file} was sealed for another key"):
            restore_backup(home, place.environ, repository, data_key=data, secrets_key=secret, say=said.append)
    assert not home.root.exists()
    assert said == []


def test_two_backups_into_one_place_do_not_meet(place: Place, keys: Keys, repository: Repository) -> None:
    with repository.holding(), pytest.raises(BackupError, match="another backup is being made"):
        take_backup(place, repository, keys)


def test_old_backups_are_dropped_while_no_other_is_being_made(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key, repository = make_key(tmp_path / "key"), Repository(tmp_path / "backups")
    nothing = Content("0" * 64, 0)

    def publish(backup_id: str, dropped: type[Exception] | None = None) -> Path:
        (file := tmp_path / backup_id).write_text(backup_id)
        with repository.holding(), repository.staging(backup_id) as staging:
            kept = KeptFile(backup_id, repository.keep(file, key), 0)
            if dropped is not None:
                with pytest.raises(dropped, match="another backup is being made"):
                    Repository(repository.root).drop_old(1)
            mark = Mark("", "", 0, 0, "")
            repository.publish(staging, Manifest(backup_id, "", 18, mark, {}, nothing, nothing, (kept,), (), "/"))
        return repository.object_path(kept.content, key)

    old = [publish("20260101"), publish("20260102"), publish("20260103", BackupUnderWayError)]
    manifest = repository.directory_of("20260103") / MANIFEST
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-9])
    with pytest.raises(BackupError, match=r"20260103/manifest\.json cannot be read"):
        repository.drop_old(1)
    assert len(repository.ids()) == 3
    assert [path.exists() for path in old] == [True, True, True]
    for name in ("TENTALIS_HOME", "TENTALIS_DATABASE_URL"):
        monkeypatch.setenv(name, place.environ[name])
    with pytest.raises(SystemExit) as leaving:
        main(["backup", "--list", "--json", "--to", str(repository.root)])
    rows = json.loads(capsys.readouterr().out)
    assert (leaving.value.code, [row["id"] for row in rows]) == (1, ["20260101", "20260102", "20260103"])
    assert [row.get("fault", "").startswith(f"{manifest} cannot be read: ") for row in rows] == [False, False, True]
    manifest.write_bytes(whole)
    assert repository.drop_old(1) == 2
    assert repository.ids() == ["20260103"]
    assert [path.exists() for path in old] == [False, False, True]


@pytest.mark.parametrize("damage", ["changed", "cut", "missing"])
def test_a_damaged_file_is_found_and_nothing_is_left_of_the_restore(
    place: Place, keys: Keys, repository: Repository, shop: Project, artifact: Path, tmp_path: Path, damage: str
) -> None:
    take_backup(place, repository, keys)
    (path,) = (path for path in files_of(repository) if "objects" in path.parts)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(bytes(data) if damage == "changed" else bytes(data[:-5]))
    home = Home(tmp_path / "back")
    with pytest.raises(BackupError, match=r"missing|cut or changed|must hold"):
        restore_backup(home, place.environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    assert not home.root.exists()


def test_a_restore_wants_an_empty_home_and_an_empty_database(
    place: Place, keys: Keys, repository: Repository, shop: Project, tmp_path: Path
) -> None:
    take_backup(place, repository, keys)
    with pytest.raises(RestoreError, match=r"must be empty, found .*config.toml"):
        restore_backup(place.home, place.environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    home = Home(tmp_path / "back")
    with pytest.raises(RestoreError, match="the database must be empty"):
        restore_backup(home, place.environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    assert not home.root.exists()
    assert Project.objects.get(pk=shop.pk).name == WORDS


def test_kept_models_may_lie_in_the_home_before_and_stay_there(
    place: Place, keys: Keys, repository: Repository, tmp_path: Path
) -> None:
    take_backup(place, repository, keys)
    home = Home(tmp_path / "back")
    (models_directory(home.root) / "own").mkdir(parents=True)
    with pytest.raises(RestoreError, match="the database must be empty"):
        restore_backup(home, place.environ, repository, data_key=keys.data, secrets_key=keys.secrets)
    assert [path.name for path in home.root.iterdir()] == ["models"]
    assert (models_directory(home.root) / "own").is_dir()


def test_a_home_that_is_half_restored_does_not_start(home: Home) -> None:
    home.prepare()
    home.restoring_file.touch()
    with pytest.raises(HomeError, match="only half restored"):
        refuse_half_restored(home, ())
    refuse_half_restored(home, ("postgres",))


def test_what_the_gateway_stores_and_deletes_while_the_database_is_dumped_is_in_the_backup(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    (own := spool / "gateway-1").mkdir(parents=True)
    (own / "000000000000.spool").write_bytes(b"one")
    with linked_spool(spool) as links:
        with (own / "000000000000.spool").open("ab") as file:
            file.write(b" two")
        (own / "000000000001.spool").write_bytes(b"three")
        (own / "000000000000.spool").unlink()  # stored
        link_segments(spool, links)
        kept = {path.name: path.read_bytes() for path in links.rglob("*.spool")}
    assert kept == {"000000000000.spool": b"one two", "000000000001.spool": b"three"}
    assert [path.name for path in spool.iterdir()] == ["gateway-1"]


def test_the_links_of_a_backup_that_was_killed_go_with_the_next_one_and_those_of_one_that_runs_stay(
    tmp_path: Path,
) -> None:
    (own := tmp_path / "gateway-1").mkdir()
    (own / "000000000000.spool").write_bytes(b"one")
    killed = subprocess.Popen(["sleep", "600"])
    identity = process_identity(killed.pid)
    killed.kill()
    killed.wait()
    names = [f".backup-{identity}", ".backup-12", ".backup-", ".backup-x", f".backup-{process_identity(os.getppid())}"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "000000000000.spool").write_bytes(b"what somebody said")
    with linked_spool(tmp_path) as links:
        assert {path.name for path in tmp_path.iterdir()} == {"gateway-1", links.name, names[-1]}
    assert {path.name for path in tmp_path.iterdir()} == {"gateway-1", names[-1]}


def test_without_room_on_the_disk_nothing_is_written(
    place: Place, keys: Keys, repository: Repository, shop: Project
) -> None:
    with (place.artifacts / "huge").open("wb") as file:
        file.truncate(2**43)  # holds nothing, and says it holds eight tebibytes
    with pytest.raises(BackupError, match=r"MiB free, a backup may need 8,38\d,"):
        take_backup(place, repository, keys)
    assert repository.ids() == []


def test_a_manifest_is_read_as_it_was_written(
    place: Place, keys: Keys, repository: Repository, shop: Project, artifact: Path
) -> None:
    manifest = take_backup(place, repository, keys)
    assert repository.read(manifest.id) == manifest
    assert manifest.counts["public.accounts_project"] == 1
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_the_keys_are_files_of_age_itself(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert str(key).startswith("AGE-SECRET-KEY-1")
    with (tmp_path / "text").open("wb+") as text:
        text.write(b"words")
        text.seek(0)
        assert seal(text, tmp_path / "sealed", key).size_bytes == 5
    assert (tmp_path / "sealed").read_bytes().startswith(b"age-encryption.org/v1\n")
    assert unseal(tmp_path / "sealed", key) == Content(
        "dba36bffa5cab0f922d087a3aeb179f9d4e745df40b323e1b1471402848c8a3e", 5
    )
