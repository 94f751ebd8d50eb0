"""Projects, members and tokens as services: what is kept, who may, what the audit says."""

import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings
from django.utils import timezone

from apps.accounts import services, tokens
from apps.accounts.models import ApiToken, Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import hash_secret
from apps.audit.models import AuditEntry
from apps.base.errors import (
    BadInputError,
    ConflictError,
    NotAllowedError,
    NotFoundError,
    NotSignedInError,
    TentalisError,
)
from apps.workers.models import Worker
from tentalis.core.desk import HOUSE_RULES
from tentalis.core.desk_rubric import read_rubric
from tests.factories import make_user

PASSWORD = "a-password-for-the-admin"


def make_token(user: User, **values: Any) -> tuple[ApiToken, str]:
    defaults: dict[str, Any] = {"name": "t", "scopes": ["tasks:read"], "by": user}
    return tokens.create_token(user=user, **defaults | values)


def kinds() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("kind", flat=True))


def test_only_the_keyed_hash_of_a_token_is_kept(alice: User) -> None:
    token, text = make_token(alice)
    start, key_id, secret = text.split("_")
    assert (start, key_id, len(secret)) == ("tnt", token.key_id, 43)
    row = ApiToken.objects.filter(pk=token.pk).values().get()
    assert secret not in str(row)
    assert row["secret_hash"] == hash_secret(secret)
    with override_settings(SECRET_KEY="another-key-altogether"):
        assert hash_secret(secret) != row["secret_hash"]
    assert secret not in str(list(AuditEntry.objects.values()))
    assert kinds() == ["token.created"]


def test_a_token_finds_its_user_and_notes_its_use(alice: User) -> None:
    token, text = make_token(alice)
    found = tokens.find_token(text)
    assert (found.user, found.scopes) == (alice, ["tasks:read"])
    first = ApiToken.objects.get(pk=token.pk).last_used_at
    assert first is not None
    tokens.find_token(text)
    assert ApiToken.objects.get(pk=token.pk).last_used_at == first


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: text + "a",
        lambda text: text.replace("tnt", "tmt"),
        lambda text: text.swapcase(),
        lambda text: f"tnt_{'a' * 12}_{text.rsplit('_', 1)[1]}",
        lambda text: text + "\n",
        lambda text: text + "\x00",
    ],
)
def test_a_text_that_is_no_token_is_refused_in_the_same_words(alice: User, spoil: Callable[[str], str]) -> None:
    _, text = make_token(alice)
    with pytest.raises(NotSignedInError, match="this token is not valid"):
        tokens.find_token(spoil(text))


def test_expired_and_revoked_tokens_are_worthless_at_once(alice: User) -> None:
    token, text = make_token(alice)
    tokens.revoke_token(token=token, by=alice)
    tokens.revoke_token(token=token, by=alice)
    assert kinds() == ["token.created", "token.revoked"]
    other, other_text = make_token(alice)
    ApiToken.objects.filter(pk=other.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    for dead in (text, other_text):
        with pytest.raises(NotSignedInError):
            tokens.find_token(dead)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["tasks:eat"]}, "scopes"),
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"expires_in_days": 366}, "expires_in_days"),
        ({"limits": {"requests_per_minute": 0}}, "limits"),
        ({"limits": {"requests": 1}}, "limits"),
        ({"limits": ["requests_per_minute"]}, "limits"),
    ],
)
def test_a_token_that_cannot_be_is_refused_by_field(alice: User, values: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInputError) as refused:
        make_token(alice, **values)
    assert list(refused.value.errors) == [field]
    assert not ApiToken.objects.exists()


def test_nobody_makes_tokens_for_another_but_owners_for_their_agents(
    project: Project, alice: User, bob: User, charlie: User
) -> None:
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=project, user=claw, role=Role.AGENT)
    for values in ({"user": bob, "by": alice}, {"user": claw, "by": alice, "project": project}):
        with pytest.raises(NotAllowedError):
            tokens.create_token(name="t", scopes=["tasks:read"], **values)
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    token, _ = tokens.create_token(user=claw, name="t", scopes=["tasks:read"], project=project, by=alice)
    with pytest.raises(NotAllowedError):
        tokens.create_token(user=claw, name="t", scopes=["tasks:read"], by=alice)
    with pytest.raises(NotFoundError):
        tokens.create_token(user=charlie, name="t", scopes=["tasks:read"], project=project, by=charlie)
    with pytest.raises(NotFoundError):
        tokens.revoke_token(token=token, by=bob)
    tokens.revoke_token(token=token, by=alice)


def test_an_agent_cannot_widen_the_limits_its_owner_gave_it(project: Project, alice: User, bob: User) -> None:
    claw = make_user("claw", is_agent=True)
    Member.objects.create(project=project, user=claw, role=Role.AGENT)
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    limits = {"requests_per_minute": 10, "usd_per_day": 1.5}
    token, _ = make_token(claw, project=project, by=alice, limits=limits)
    assert ApiToken.objects.get(pk=token.pk).limits == limits
    with pytest.raises(NotAllowedError):
        tokens.change_token(token=token, by=claw, limits={}, made_with=None)
    with pytest.raises(NotFoundError):
        tokens.change_token(token=token, by=bob, limits={}, made_with=None)
    tokens.change_token(token=token, by=alice, limits={"tokens_per_day": 5}, made_with=None)
    tokens.change_token(token=token, by=alice, limits={"tokens_per_day": 5}, made_with=None)
    assert ApiToken.objects.get(pk=token.pk).limits == {"tokens_per_day": 5}
    entry = AuditEntry.objects.get(kind="token.changed")
    assert entry.payload == {"key_id": token.key_id, "before": limits, "after": {"tokens_per_day": 5}}


def test_limits_of_a_project_are_checked_by_what_reads_them(project: Project, alice: User) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    services.change_project(project=project, by=alice, limits={"tokens_per_minute": 1000})
    wrongs: tuple[Any, ...] = (
        {"tokens_per_minute": 1.5},
        {"tokens_per_minute": True},
        {"usd_per_day": 0},
        {"tokens": 1},
        [],
    )
    for wrong in wrongs:
        with pytest.raises(BadInputError) as refused:
            services.change_project(project=project, by=alice, limits=wrong)
        assert list(refused.value.errors) == ["limits"]
    assert Project.objects.get(pk=project.pk).limits == {"tokens_per_minute": 1000}


def test_a_right_is_a_roles_and_a_stranger_learns_nothing(
    project: Project, alice: User, bob: User, charlie: User
) -> None:
    services.require_right(alice, project, Right.RUNS_WRITE)
    with pytest.raises(NotAllowedError, match="runs:write"):
        services.require_right(bob, project, Right.RUNS_WRITE)
    with pytest.raises(NotFoundError):
        services.require_right(charlie, project, Right.TASKS_READ)
    assert services.require_role(bob, project, Role.REVIEWER) == Role.REVIEWER
    with pytest.raises(NotAllowedError, match="owner"):
        services.require_role(bob, project, Role.OWNER)
    with pytest.raises(NotFoundError):
        services.require_role(charlie, project, Role.OWNER)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    alice.refresh_from_db()
    with pytest.raises(NotFoundError):
        services.require_right(alice, project, Right.TASKS_READ)


def test_a_change_says_before_and_after_and_no_change_says_nothing(project: Project, alice: User) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    services.change_project(project=project, by=alice, group_size=4)
    services.change_project(project=project, by=alice, group_size=4)
    assert kinds() == ["project.changed"]
    payload = AuditEntry.objects.get().payload
    assert payload == {"before": {"group_size": 8}, "after": {"group_size": 4}}


def test_a_slug_is_one_projects(alice: User, project: Project) -> None:
    alice.may_make_projects = True
    with pytest.raises(ConflictError, match="shop is taken"):
        services.create_project(name="Other", slug="shop", by=alice)
    with pytest.raises(NotAllowedError):
        services.create_project(name="Mine", slug="mine", by=make_user("claw", is_agent=True))
    with pytest.raises(BadInputError, match="colour"):
        services.create_project(name="Mine", slug="mine", by=alice, colour="red")


def test_an_agent_is_no_reviewer_and_a_person_no_agent(project: Project, alice: User, charlie: User) -> None:
    Member.objects.filter(user=alice).update(role=Role.OWNER)
    claw = make_user("claw", is_agent=True)
    for user, role in ((claw, "reviewer"), (charlie, "agent"), (charlie, "king")):
        with pytest.raises(BadInputError):
            services.add_member(project=project, user=user, role=role, by=alice)
    services.add_member(project=project, user=claw, role="agent", by=alice)
    with pytest.raises(ConflictError, match="member"):
        services.add_member(project=project, user=claw, role="agent", by=alice)


@pytest.mark.django_db(transaction=True)
def test_two_last_owners_who_leave_at_once_do_not_both_leave(project: Project, alice: User, bob: User) -> None:
    Member.objects.filter(project=project).update(role=Role.OWNER)

    def leave(user: User) -> bool:
        try:
            services.remove_member(member=Member.objects.get(user=user), by=user)
        except TentalisError:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(2) as pool:
        left = list(pool.map(leave, (alice, bob)))
    assert sorted(left) == [False, True]
    assert Member.objects.filter(project=project, role=Role.OWNER).count() == 1


@pytest.mark.django_db
def test_signing_in_and_failing_to_are_both_audited() -> None:
    make_user("alice")
    make_user("claw", is_agent=True)
    _, text = services.sign_in(username="alice", password="alice-has-a-password", name="here")
    assert tokens.find_token(text).user.username == "alice"
    for name, password in (("alice", "x"), ("nobody", "x"), ("claw", "claw-has-a-password")):
        with pytest.raises(NotSignedInError, match="do not belong together"):
            services.sign_in(username=name, password=password, name="here")
    assert kinds() == ["token.created", "user.signed_in", *["user.sign_in_failed"] * 3]


@pytest.fixture
def bootstrap() -> Callable[..., None]:
    def run(**options: Any) -> None:
        with override_settings(TENTALIS={**settings.TENTALIS, "ADMIN_PASSWORD": PASSWORD}):
            call_command("bootstrap", **options)

    return run


@pytest.mark.django_db
def test_bootstrap_makes_admin_project_and_worker_once(bootstrap: Callable[..., None]) -> None:
    bootstrap()
    first = kinds()
    bootstrap()
    assert kinds() == first
    assert first == ["user.created", "project.created", "member.added", "worker.created"]
    admin = User.objects.get()
    assert admin.is_superuser
    assert admin.check_password(PASSWORD)
    worker = Worker.objects.select_related("project").get()
    assert (worker.project.slug, worker.name, worker.kind, worker.base_model) == ("desk", "desk", "desk", "desk")
    policy = worker.project.review_policy
    assert (policy["ai_manager"], policy["who"], policy["human_rate"]) == ("rule-book", "both", 0.05)
    assert read_rubric(worker.project.rubric) == HOUSE_RULES


@pytest.mark.django_db
def test_bootstrap_keeps_a_changed_password_and_leaves_a_token_that_works(
    bootstrap: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    bootstrap(token_file=file)
    text = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    admin = tokens.find_token(text).user
    bootstrap(token_file=file)
    assert file.read_text().strip() == text
    admin.set_password("changed-by-its-owner")
    admin.save()
    with pytest.raises(NotSignedInError):
        tokens.find_token(text)
    bootstrap(token_file=file)
    assert tokens.find_token(file.read_text().strip()).user == admin
    admin.refresh_from_db()
    assert admin.check_password("changed-by-its-owner")
    tokens.revoke_token(token=ApiToken.objects.get(revoked_at=None), by=admin)
    bootstrap(token_file=file)
    assert file.read_text().strip() != text
    said = capsys.readouterr()
    assert said.out + said.err == ""


@pytest.mark.django_db
def test_bootstrap_without_a_password_or_a_place_for_the_token_says_so(
    bootstrap: Callable[..., None], tmp_path: Path
) -> None:
    with (
        override_settings(TENTALIS={**settings.TENTALIS, "ADMIN_PASSWORD": None}),
        pytest.raises(CommandError, match="TENTALIS_ADMIN_PASSWORD"),
    ):
        call_command("bootstrap")
    assert not User.objects.exists()
    with pytest.raises(CommandError, match="cannot be written"):
        bootstrap(token_file=tmp_path / "none" / "token")
    assert not ApiToken.objects.filter(revoked_at=None).exists()
