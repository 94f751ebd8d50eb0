"""Tasks in the shop's site, without a browser: each can be done by the site's own pages, and nothing else is right."""

from random import Random

import pytest

from tentalis.core.gui.reading import PageReader
from tentalis.core.gui.shop import draw_shop
from tentalis.core.gui.site import open_page, send_form
from tentalis.core.gui.solving import solve_task
from tentalis.core.gui.tasks import FAMILIES, GuiTaskError, Task, draw_task, is_held_out, read_task, settle_task

NAMES = sorted(FAMILIES)


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("held_out", [False, True])
def test_the_sites_own_pages_lead_to_what_a_task_wants(family: str, held_out: bool) -> None:
    rng = Random(f"{family}/{held_out}")
    for _ in range(12):
        task = draw_task(rng, held_out=held_out, family=family)
        assert read_task(task.prompt) == task
        assert is_held_out(task) == held_out
        calls, shop = solve_task(task)
        settled = settle_task(task)
        assert shop == settled.after != settled.before
        assert calls[-1].name == "done"
        assert len(calls) <= 20


@pytest.mark.parametrize("family", NAMES)
def test_every_task_has_a_habit_of_the_house_which_it_does_not_tell(family: str) -> None:
    rng = Random(family)
    tasks = [draw_task(rng, held_out=False, family=family) for _ in range(25)]
    hints = {settle_task(task).hint for task in tasks}
    assert hints
    assert not any(hint in task.text for hint in hints for task in tasks)


def test_one_shop_is_the_same_every_time_and_another_number_another_shop() -> None:
    assert draw_shop(7) == draw_shop(7) != draw_shop(8)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("Order 2 of Blue mug, and nothing else.", "wanted 'Shop NUMBER: '"),
        ("Shop 3: Tidy up.", "wanted one of: Order {count}"),
        ("Shop 3: Order 2 of Pink moon, and nothing else.", "wanted a product of the shop, found 'Pink moon'"),
        ("Shop 3: Export the lost orders of May.", "found 'lost', 'May'"),
        (
            "Shop 3: nobody@post.test is there twice: merge the two.",
            "wanted an address that two customers have, found 0",
        ),
        ("Shop 3: Put a coupon on the cart that gives 99 percent or more.", "found 99 percent"),
        ("Shop 12345: Export the open orders of May.", "wanted 'Shop NUMBER: '"),
        ("x" * 1_000_000, "wanted 'Shop NUMBER: '"),
    ],
)
def test_what_is_no_task_here_is_refused_in_words(prompt: str, words: str) -> None:
    with pytest.raises(GuiTaskError) as told:
        settle_task(read_task(prompt))
    assert words in str(told.value)
    assert len(str(told.value)) < 1_000


def test_a_task_that_is_done_already_is_none() -> None:
    shop = draw_shop(3)
    names = [one["name"] for one in shop["customers"]]
    row = next(one for one in shop["customers"] if names.count(one["name"]) == 1)
    with pytest.raises(GuiTaskError, match="is so already"):
        settle_task(Task(3, "address", f"{row['name']} has moved to {row['street']} in {row['city']}."))


@pytest.mark.parametrize(
    ("path", "form", "said"),
    [
        ("/shop/1", {"count": "0"}, "from 1 to 999"),
        ("/shop/1", {"count": "²"}, "from 1 to 999"),
        ("/shop/1", {}, "from 1 to 999"),
        ("/products/1", {"price": "cheap", "stock": "1"}, "an amount such as"),
        ("/products/99", {"price": "1", "stock": "1"}, "not there any more"),
        ("/checkout", {"shipping": "drone"}, "choose one of pickup"),
        ("/cart", {"do": "coupon", "code": "FREE"}, "no such coupon"),
        ("/cart", {"do": "update-99", "count": "1"}, "not in the cart"),
        ("/messages/51", {"reply": "Hello.", "tag": "care"}, "answered before"),
        ("/messages/52", {"reply": "x" * 301, "tag": "care"}, "1 to 300 characters"),
        ("/customers/99", {"street": "a", "city": "b"}, "not there any more"),
        ("/orders/1001", {"product": "Moon", "amount": "1"}, "choose one of"),
        ("/nowhere", {"a": "b"}, "no such page"),
    ],
)
def test_a_form_that_asks_for_too_much_changes_nothing_and_is_told_why(
    path: str, form: dict[str, str], said: str
) -> None:
    shop = draw_shop(5)
    shop["products"][0]["shown"] = True
    before = repr(shop)
    page = send_form(shop, path, form)
    assert said in page.html
    assert repr(shop) == before
    assert open_page(shop, page.path).html == page.html  # the address leads back to the page


def test_what_is_written_into_a_page_is_text_there_and_no_markup() -> None:
    shop = draw_shop(5)
    send_form(shop, "/messages/52", {"reply": "<b>bold</b> & <script>", "tag": "care"})
    html = open_page(shop, "/messages/52").html
    assert "&lt;b&gt;bold" in html
    assert "<script" not in html


def test_two_elements_of_one_name_on_a_page_are_not_taken_for_each_other() -> None:
    page = PageReader('<a href="/a">Go</a><a href="/b">Go</a>')
    with pytest.raises(LookupError, match="wanted one link 'Go', found 2"):
        page.find("link", "Go")


def test_what_is_written_into_the_shop_stays_words() -> None:
    """Elements of its own on a page would be none that a page has, and who looks at it would find it broken."""
    shop = draw_shop(3)
    row = shop["customers"][0]
    city = '<input><form action="/orders/1001">'
    found = send_form(shop, f"/customers/{row['id']}", {"street": "x", "city": city})
    assert row["city"] == city
    before = PageReader(open_page(draw_shop(3), "/customers").html).elements
    for path in ("/customers", found.path):
        assert city not in open_page(shop, path).html
    assert PageReader(open_page(shop, "/customers").html).elements == before
