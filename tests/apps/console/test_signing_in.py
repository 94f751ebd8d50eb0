"""One's own password, and the browsers one is signed in with."""

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.accounts.browser_sessions import SessionStore, hash_cookie
from apps.accounts.models import BrowserSession, Member, Project, Role, User
from apps.console.views.signing_in import describe_device
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD, NEW = "vera-has-a-password", "quite-another-password-2"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile Safari/604.1"


@pytest.fixture
def vera(project: Project) -> User:
    """Looks, and does nothing else."""
    vera = make_user("vera")
    Member.objects.create(project=project, user=vera, role=Role.VIEWER)
    return vera


def sign_in(password: str = PASSWORD, *, device: str = FIREFOX, address: str = "192.0.2.1") -> Client:
    client = Client(HTTP_USER_AGENT=device, REMOTE_ADDR=address)
    client.post(reverse("console:sign-in"), {"username": "vera", "password": password})
    return client


def is_in(client: Client) -> bool:
    return client.get(reverse("console:preferences")).status_code == 200


def test_what_stands_in_the_database_opens_no_session(vera: User) -> None:
    cookie = sign_in().cookies["sessionid"].value
    with connection.cursor() as cursor:
        cursor.execute("SELECT row::text FROM accounts_browsersession row")
        stored = cursor.fetchall()
    assert len(stored) == 1
    assert cookie not in stored[0][0]
    thief = Client()
    for text in (BrowserSession.objects.get().pk, BrowserSession.objects.get().session_data):
        thief.cookies["sessionid"] = text
        assert not is_in(thief)
    thief.cookies["sessionid"] = cookie
    assert is_in(thief)


def test_a_session_is_kept_under_the_hash_by_every_way_in(vera: User) -> None:
    store = SessionStore()
    store["a"] = 1
    store.save()
    assert store.session_key
    assert SessionStore(store.session_key)["a"] == 1
    assert store.exists(store.session_key)
    assert not store.exists(hash_cookie(store.session_key))
    store.cycle_key()
    assert BrowserSession.objects.get().pk == hash_cookie(store.session_key)
    store.flush()
    assert not BrowserSession.objects.exists()


def test_a_viewer_changes_their_own_password_and_stays_signed_in_here_alone(vera: User) -> None:
    here, there = sign_in(), sign_in(device=PHONE)
    sent = {"current": PASSWORD, "new": NEW, "again": NEW}
    assert here.post(reverse("console:password"), sent).status_code == 302
    assert is_in(here)
    assert not is_in(there)
    assert not is_in(sign_in())
    assert is_in(sign_in(NEW))


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"current": "wrong", "new": NEW, "again": NEW}, "current"),
        ({"current": PASSWORD, "new": NEW, "again": "another"}, "again"),
        ({"current": PASSWORD, "new": "vera", "again": "vera"}, "new"),
    ],
)
def test_a_password_that_cannot_be_changed_so_says_where(vera: User, sent: dict[str, str], field: str) -> None:
    client = sign_in()
    answer = client.post(reverse("console:password"), sent)
    assert (answer.status_code, list(answer.context["form"].errors)) == (400, [field])
    assert is_in(sign_in())


def test_the_present_password_is_not_guessed_here_either(vera: User) -> None:
    client = sign_in()
    for _ in range(10):
        client.post(reverse("console:password"), {"current": "wrong", "new": NEW, "again": NEW})
    answer = client.post(reverse("console:password"), {"current": PASSWORD, "new": NEW, "again": NEW})
    assert answer.status_code == 429


def test_sessions_are_listed_by_device_and_address_and_one_is_ended(vera: User) -> None:
    here, there = sign_in(), sign_in(device=PHONE, address="192.0.2.9")
    page = here.get(reverse("console:signing-in")).content.decode()
    for words in ("Firefox, Linux", "Safari, iPhone", "192.0.2.1", "192.0.2.9", "this one"):
        assert words in page, words
    other = BrowserSession.objects.get(address="192.0.2.9")
    assert here.post(reverse("console:sessions-end"), {"session": other.pk}).status_code == 302
    assert is_in(here)
    assert not is_in(there)


def test_all_others_are_ended_at_once(vera: User) -> None:
    here, *others = (sign_in() for _ in range(4))
    here.post(reverse("console:sessions-end"))
    assert is_in(here)
    assert not any(is_in(one) for one in others)


def test_somebody_elses_session_is_nobodys(vera: User, alice: User) -> None:
    stranger = Client()
    stranger.force_login(alice)
    here = sign_in()
    answer = here.post(reverse("console:sessions-end"), {"session": BrowserSession.objects.get(user=alice).pk})
    assert answer.status_code == 404
    assert is_in(stranger)


def test_signing_out_is_audited_and_leaves_no_row(vera: User) -> None:
    client = sign_in()
    client.post(reverse("console:sign-out"))
    assert not BrowserSession.objects.filter(user=vera).exists()


@pytest.mark.parametrize(
    ("said", "words"), [(FIREFOX, "Firefox, Linux"), (PHONE, "Safari, iPhone"), ("curl/8.5", "curl"), ("", "")]
)
def test_a_device_is_told_in_words(said: str, words: str) -> None:
    assert describe_device(said) == words
