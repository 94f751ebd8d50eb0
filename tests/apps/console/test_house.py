"""How a project is set up, by its owner: settings in words, members, tokens."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import ApiToken, Invitation, Member, Project, Role, User
from apps.accounts.tokens import create_token, find_token
from apps.audit.models import AuditEntry
from apps.console.forms_settings import READERS, make_sections
from apps.console.words_settings import FIELD_WORDS
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(project: Project) -> User:
    user = make_user("olga")
    Member.objects.create(project=project, user=user, role=Role.OWNER)
    return user


@pytest.fixture
def client(owner: User) -> Client:
    client = Client()
    client.force_login(owner)
    return client


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def as_typed(project: Project, section: str, **changed: str) -> dict[str, Any]:
    """What a browser sends when somebody opens the section and changes some fields."""
    form = next(form for form in make_sections(project) if form.section == section)
    typed: dict[str, Any] = {"section": section}
    for field in form:
        value = field.value()
        if isinstance(value, bool):
            if value:
                typed[field.html_name] = "on"
        elif value is not None:
            typed[field.html_name] = (
                list(value)
                if isinstance(value, tuple | list) and field.name == "environments"
                else (", ".join(value) if isinstance(value, tuple | list) else value)
            )
    return typed | {f"{section}-{name}": value for name, value in changed.items()}


@pytest.mark.parametrize("section", ["general", *READERS, "weight_profiles"])
def test_saving_a_section_as_it_was_opened_changes_nothing(client: Client, project: Project, section: str) -> None:
    before = Project.objects.values().get(pk=project.pk)
    assert client.post(path("settings"), as_typed(project, section)).status_code == 302
    assert Project.objects.values().get(pk=project.pk) == before
    assert not AuditEntry.objects.filter(kind="project.changed").exists()


def test_only_what_differs_from_the_built_in_is_kept(client: Client, project: Project) -> None:
    client.post(path("settings"), as_typed(project, "review_policy", rate="0.25", uncertain_spread="0.3"))
    client.post(path("settings"), as_typed(project, "gate_policy", panel_size="120"))
    client.post(path("settings"), as_typed(project, "recipe", learning_rate="0.001", dual_clip="3"))
    client.post(path("settings"), as_typed(project, "general", name="The shop", group_size="4"))
    project.refresh_from_db()
    assert project.review_policy == {"rate": 0.25, "uncertain_spread": 0.3}
    assert project.gate_policy == {"panel_size": 120}
    assert project.recipe == {"learning_rate": 0.001, "dual_clip": 3.0}
    assert (project.name, project.group_size) == ("The shop", 4)
    client.post(path("settings"), as_typed(project, "review_policy", rate="1", uncertain_spread=""))
    project.refresh_from_db()
    assert project.review_policy == {}


def test_weights_of_one_environment_are_kept_and_their_sum_is_checked(client: Client, project: Project) -> None:
    typed = as_typed(project, "weight_profiles") | {"weight_profiles-desk-outcome": "0.7"}
    answer = client.post(path("settings"), typed | {"weight_profiles-desk-step_verifier": "0.1"})
    assert answer.status_code == 400
    assert "weights want to sum to 1, found 0.8" in answer.content.decode()
    client.post(path("settings"), typed | {"weight_profiles-desk-step_verifier": "0.3"})
    project.refresh_from_db()
    assert project.weight_profiles == {"desk": {"outcome": 0.7, "step_verifier": 0.3}}


@pytest.mark.parametrize(
    ("section", "field", "value", "said"),
    [
        ("review_policy", "rate", "7", "found 7"),
        ("gate_policy", "margin", "2", "found 2"),
        ("recipe", "learning_rate", "40", "found 40"),
        ("general", "group_size", "65", "less than or equal to 64"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_nothing_changes(
    client: Client, project: Project, section: str, field: str, value: str, said: str
) -> None:
    answer = client.post(path("settings"), as_typed(project, section, **{field: value}))
    page = answer.content.decode()
    assert answer.status_code == 400
    beside = re.search(rf'<label for="id_{section}-{field}".*?</div>', page, flags=re.DOTALL)
    assert beside is not None
    assert said in beside[0]
    assert f'value="{value}"' in beside[0]
    assert 'aria-invalid="true"' in beside[0]
    project.refresh_from_db()
    assert (project.review_policy, project.gate_policy, project.recipe) == ({}, {}, {})


def test_every_setting_has_words(project: Project) -> None:
    named = {name for form in make_sections(project) if form.section in READERS for name in form.fields}
    assert named - set(FIELD_WORDS) == set()


def test_who_may_only_look_gets_no_button(project: Project, alice: User) -> None:
    client = Client()
    client.force_login(alice)
    page = client.get(path("settings")).content.decode()
    assert "disabled" in page
    assert f'action="{path("settings")}' not in page
    assert client.post(path("settings"), {"section": "general", "general-name": "Mine"}).status_code == 403


def make_admin(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_superuser=True)


def test_a_member_comes_changes_and_goes(client: Client, project: Project, charlie: User) -> None:
    page = client.post(path("members"), {"username": "charlie", "role": "viewer"})
    assert page.status_code == 201
    assert not Member.objects.filter(user=charlie).exists()
    guest = Client()
    guest.force_login(charlie)
    assert guest.get(page.context["link"]).status_code == 200
    assert client.get(page.context["link"]).status_code == 404  # it opens for who is invited alone
    offered = Invitation.objects.get()
    guest.post(reverse("console:invitation-answer", args=(offered.pk,)), {"answer": "accept"})
    member = Member.objects.get(project=project, user=charlie)
    assert member.role == Role.VIEWER
    client.post(path("member-role", member.pk), {"role": "auditor"})
    member.refresh_from_db()
    assert member.role == Role.AUDITOR
    client.post(path("member-remove", member.pk))
    assert not Member.objects.filter(pk=member.pk).exists()
    kinds = AuditEntry.objects.filter(kind__startswith="member.").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["member.added", "member.changed", "member.removed"]


def test_the_last_owner_stays(client: Client, project: Project, owner: User) -> None:
    member = Member.objects.get(project=project, user=owner)
    for name, said in (("member-role", {"role": "viewer"}), ("member-remove", {})):
        page = client.post(path(name, member.pk), said, follow=True).content.decode()
        assert "olga is the last owner of shop" in page
    member.refresh_from_db()
    assert member.role == Role.OWNER


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"username": "bob", "role": "viewer"}, "bob is a member of shop already"),
        ({"username": "claw", "role": "agent"}, "claw@shop is a member of shop already"),
    ],
    ids=["twice", "an agent twice"],
)
def test_who_cannot_come_in_is_said(client: Client, project: Project, said: dict[str, str], words: str) -> None:
    Member.objects.create(project=project, user=make_user("claw@shop", is_agent=True), role=Role.AGENT)
    count = Member.objects.count()
    answer = client.post(path("members"), said)
    assert answer.status_code in (400, 409)
    assert words in answer.content.decode()
    assert Member.objects.count() == count


def test_inviting_tells_nobody_which_names_there_are(client: Client, charlie: User) -> None:
    make_user("claw", is_agent=True)
    pages = [
        client.post(path("members"), {"username": name, "role": "viewer"}) for name in ("charlie", "nobody", "claw")
    ]
    assert [page.status_code for page in pages] == [201] * 3
    assert all(page.context["link"] for page in pages)


def test_an_invitation_is_declined_withdrawn_or_replaced(client: Client, project: Project, charlie: User) -> None:
    guest = Client()
    guest.force_login(charlie)
    links = [client.post(path("members"), {"username": "charlie", "role": "viewer"}).context["link"] for _ in range(2)]
    assert [guest.get(link).status_code for link in links] == [404, 200]
    offered = Invitation.objects.get(state="open")
    assert str(project.name) in guest.get(reverse("console:invitations")).content.decode()
    client.post(path("invitation-withdraw", offered.pk))
    assert guest.get(links[1]).status_code == 404
    client.post(path("members"), {"username": "charlie", "role": "viewer"})
    offered = Invitation.objects.get(state="open")
    guest.post(reverse("console:invitation-answer", args=(offered.pk,)), {"answer": "decline"})
    assert not Member.objects.filter(user=charlie).exists()
    assert sorted(Invitation.objects.values_list("state", flat=True)) == ["declined", "withdrawn", "withdrawn"]


def test_a_newcomer_makes_the_account_that_an_admins_invitation_is_for(
    client: Client, project: Project, owner: User
) -> None:
    make_admin(owner)
    page = client.post(path("members"), {"username": "dora", "role": "reviewer"})
    assert "make one there" in page.content.decode()
    guest = Client()
    form = guest.get(page.context["link"], follow=True)
    assert 'value="dora"' in form.content.decode()
    address = form.redirect_chain[-1][0]
    for new, again, said in (
        ("short", "short", "too short"),
        ("dora-chooses-this", "dora-chooses-that", "not the same"),
    ):
        refused = guest.post(address, {"new": new, "again": again})
        assert refused.status_code == 400
        assert said in refused.content.decode()
    assert not User.objects.filter(username="dora").exists()
    done = guest.post(address, {"new": "dora-chooses-this", "again": "dora-chooses-this"}, follow=True)
    assert "You are a member of Shop now." in done.content.decode()
    assert Member.objects.get(project=project, user__username="dora").role == Role.REVIEWER
    assert Client().login(username="dora", password="dora-chooses-this")
    kinds = AuditEntry.objects.order_by("id").values_list("kind", flat=True)
    assert list(kinds)[:4] == ["invitation.made", "user.created", "invitation.accepted", "member.added"]
    assert Client().get(page.context["link"]).headers["Location"].startswith("/sign-in/")


@pytest.mark.parametrize("why", ["an owner is no admin", "the admin is one no more", "somebody has the name"])
def test_other_invitations_make_no_account(client: Client, project: Project, owner: User, why: str) -> None:
    if why != "an owner is no admin":
        make_admin(owner)
    link = client.post(path("members"), {"username": "dora", "role": "reviewer"}).context["link"]
    if why == "the admin is one no more":
        User.objects.filter(pk=owner.pk).update(is_superuser=False)
    if why == "somebody has the name":
        make_user("dora")
    count = User.objects.count()
    guest = Client()
    assert guest.get(link).headers["Location"].startswith("/sign-in/")
    said = {"new": "dora-chooses-this", "again": "dora-chooses-this"}
    assert guest.post(f"{link}account/", said).headers["Location"].startswith("/sign-in/")
    assert (User.objects.count(), Invitation.objects.get().state) == (count, "open")


def test_everybody_leaves_but_the_last_owner(client: Client, project: Project, owner: User, bob: User) -> None:
    reviewer = Client()
    reviewer.force_login(bob)
    assert "Leave Shop" in reviewer.get(path("members")).content.decode()
    assert reviewer.post(path("member-leave")).status_code == 302
    assert not Member.objects.filter(user=bob).exists()
    assert "last owner" in client.post(path("member-leave"), follow=True).content.decode()
    assert Member.objects.filter(user=owner).exists()


def test_a_new_name_with_the_role_agent_makes_that_agent(client: Client, project: Project) -> None:
    client.post(path("members"), {"username": "claw", "role": "agent"})
    assert Member.objects.get(project=project, user__username="claw@shop").user.is_agent


def test_the_table_of_rights_is_the_one_that_is_enforced(client: Client) -> None:
    rows = client.get(path("members")).context["table"]
    found = {(row.resource, row.is_write): dict(row.allowed) for row in rows}
    assert found["audit", False] == {
        "Owner": True, "Manager": True, "Reviewer": False, "Auditor": True, "Viewer": False, "Agent": False,
    }  # fmt: skip
    assert found["members", True]["Manager"] is False


def test_a_token_is_shown_once_and_works_until_revoked(client: Client, project: Project, owner: User) -> None:
    said = {"name": "cli", "holder": owner.pk, "expires_in_days": 30, "scopes": ["tasks:read"]}
    answer = client.post(path("tokens"), said)
    assert answer.status_code == 201
    text = re.search(r'value="(tnt_\w+)"', answer.content.decode())
    assert text is not None
    token = find_token(text[1])
    assert (token.user, token.project, token.scopes) == (owner, project, ["tasks:read"])
    page = client.get(path("tokens")).content.decode()
    assert text[1] not in page
    assert token.key_id in page
    client.post(path("token-revoke", token.pk))
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_an_owner_makes_tokens_for_the_projects_agents_and_a_manager_does_not(
    client: Client, project: Project, alice: User
) -> None:
    agent = make_user("claw", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    said = {"name": "bot", "holder": agent.pk, "expires_in_days": 30, "scopes": ["tasks:read"]}
    assert client.post(path("tokens"), said).status_code == 201
    manager = Client()
    manager.force_login(alice)
    assert manager.post(path("tokens"), said).status_code == 400
    token = ApiToken.objects.get(user=agent)
    assert token.key_id not in manager.get(path("tokens")).content.decode()
    assert manager.post(path("token-revoke", token.pk)).status_code == 404


def test_tokens_of_others_are_out_of_sight(client: Client, owner: User, bob: User) -> None:
    token, _ = create_token(user=bob, name="bobs", scopes=["tasks:read"], by=bob)
    assert "bobs" not in client.get(path("tokens")).content.decode()
    assert client.post(path("token-revoke", token.pk)).status_code == 404
