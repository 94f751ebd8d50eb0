"""Keys of one's own: what may be chosen, what is refused, and that pages and help follow."""

import html
import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.console.keys import APPROVALS, KEYS, PAGES, REVIEW, check_keys, find_keys, write_keys
from apps.console.models import Preference
from tests.factories import make_user


def test_no_built_in_keys_of_a_page_are_the_same() -> None:
    for page in PAGES:
        keys = [one.key for one in find_keys(page)]
        assert len(keys) == len(set(keys)), page
    assert len({one.action for one in KEYS}) == len(KEYS)


def test_two_keys_can_be_swapped_and_built_in_ones_are_not_kept() -> None:
    assert check_keys({"next-step": "k", "previous-step": "j", "comment": "c"}) == {
        "next-step": "k",
        "previous-step": "j",
    }


@pytest.mark.parametrize(
    ("chosen", "wrong"),
    [
        ({"comment": "j"}, {"comment", "next-step"}),
        ({"comment": "?"}, {"comment"}),
        ({"comment": " "}, {"comment"}),
        ({"comment": "ab"}, {"comment"}),
        ({"comment": "\t"}, {"comment"}),
        ({"submit": "x"}, {"submit"}),
        ({"comment": "/"}, {"comment", "search"}),
        ({"queue-next": "x"}, {"queue-next", "tick"}),
        ({"search": "x"}, {"search", "tick"}),
        ({"search": "j"}, {"search", "next-step", "proposal-next", "item-next"}),
        ({"tick": "?"}, {"tick"}),
        ({"dance": "x"}, {"dance"}),
    ],
    ids=[
        *("taken", "fixed", "space", "two", "tab", "not changeable", "unknown"),
        *("of every page", "of lists, on one", "of lists and everywhere", "of two pages", "fixed everywhere"),
    ],
)
def test_what_cannot_be_a_key_is_refused_by_name(chosen: dict[str, str], wrong: set[str]) -> None:
    with pytest.raises(BadInputError) as caught:
        check_keys(chosen)
    assert set(caught.value.errors) == wrong


def test_the_same_key_may_do_something_else_on_another_page() -> None:
    assert check_keys({"comment": "a"}) == {"comment": "a"}


def test_a_page_reads_its_own_keys_and_the_arrows_stay() -> None:
    table = json.loads(write_keys(APPROVALS, {"proposal-next": "n", "comment": "x"}))
    assert table["proposal-next"]["key"] == "n ArrowDown"
    assert "comment" not in table
    assert json.loads(write_keys(REVIEW, {"submit": "x"}))["submit"]["key"] == "Control+Enter"


@pytest.mark.django_db
class TestForm:
    @pytest.fixture
    def client(self, bob: User) -> Client:
        client = Client()
        client.force_login(bob)
        return client

    @pytest.fixture
    def bob(self, project: Project) -> User:
        return make_user("bob")

    def send(self, client: Client, **changed: str) -> Any:
        built_in = {one.action: one.key for one in KEYS if not one.is_fixed}
        return client.post(reverse("console:keys"), built_in | changed)

    def test_a_choice_is_kept_shown_and_read_by_the_page(self, client: Client, bob: User) -> None:
        assert self.send(client, **{"next-step": "n"}).status_code == 302
        assert Preference.objects.get(user=bob).keys == {"next-step": "n"}
        page = client.get(reverse("console:keys")).content.decode()
        assert re.search(r'name="next-step" value="n"', page)
        assert self.read(client, "proposal-list")["proposal-next"]["label"] == "Choose the next"

    def test_the_search_and_the_ticks_are_remapped_where_they_act(self, client: Client, bob: User) -> None:
        assert self.send(client, search="f", tick="y").status_code == 302
        for page in ("task-list", "review-list", "dead-letters"):
            table = self.read(client, page)
            assert (table["search"]["key"], table["tick"]["key"]) == ("f", "y"), page
        for page in ("project", "proposal-list", "my-feedback"):
            table = self.read(client, page)
            assert (table["search"]["key"], "tick" in table) == ("f", False), page

    def read(self, client: Client, page: str) -> Any:
        """The page's table of keys."""
        shown = client.get(reverse(f"console:{page}", args=("shop",))).content.decode()
        found = re.findall(r'data-key-table="([^"]*)"', shown)
        assert len(found) == 1, page
        return json.loads(html.unescape(found[0]))

    def test_a_conflict_is_refused_beside_both_fields_and_what_was_typed_stays(self, client: Client, bob: User) -> None:
        answer = self.send(client, comment="j")
        assert answer.status_code == 400
        page = answer.content.decode()
        assert page.count("is taken by") == 2
        assert re.search(r'name="comment" value="j"', page)
        assert not Preference.objects.filter(user=bob).exists()

    def test_an_empty_field_and_the_button_bring_the_built_in_keys_back(self, client: Client, bob: User) -> None:
        self.send(client, **{"next-step": "n", "comment": "x"})
        self.send(client, **{"next-step": "n", "comment": ""})
        assert Preference.objects.get(user=bob).keys == {"next-step": "n"}
        client.post(reverse("console:keys"), {"reset": "1"})
        assert Preference.objects.get(user=bob).keys == {}
