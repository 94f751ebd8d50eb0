"""What is asked in the shop, what is right then, and the house's habits, which the task does not tell.

A task names its shop by a number and says what to do in it. Right is one state of the shop's database alone: whatever
else was changed is wrong.
"""

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from random import Random
from typing import Any, Final, NamedTuple

from tentalis.core.gui.shop import (
    BOX,
    CITIES,
    GLASS,
    MONTHS,
    STATUSES,
    STREETS,
    Shop,
    draw_shop,
    find_coupon_fault,
    find_product,
    find_row,
    say_money,
)
from tentalis.core.gui.site import MOST_COUNT, merge, refund, write_export, write_order

SHOPS: Final = 10_000
"""Shops by number, from 0."""
_HELD_OUT_OF: Final = 5
_OPENING: Final = re.compile(r"Shop (\d{1,4}): (.{1,300})", re.ASCII)
REPLIES: Final = (
    "We are open from 9 to 17.", "It left our house today.", "We will send a new invoice.", "We are sorry for that.",
    "It is back on Monday.", "Please call us tomorrow.",
)  # fmt: skip


class GuiTaskError(ValueError):
    """What was asked for is no task of this world."""


class Move(NamedTuple):
    """One thing to do on a page: do, role and name of the element, and what is typed or chosen."""

    do: str
    role: str
    name: str
    value: str = ""


Said = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """A kind of task.

    Args:
        form: of its text, `{…}` where a value stands.
        draw: values for a shop; they are right for it.
        settle: makes the shop what it should be, and says a way there. Raises GuiTaskError for what cannot be done.
        habit: what a manager who knows the house says of a task.
    """

    name: str
    form: str
    draw: Callable[[Random, Shop], Said]
    settle: Callable[[Shop, Said], list[Move]]
    habit: Callable[[Shop, Said], str]

    @property
    def pattern(self) -> re.Pattern[str]:
        return _compile(self.form)


@lru_cache(maxsize=64)
def _compile(form: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[\\w .,@-]{1,60}?)", re.escape(form)))


@dataclass(frozen=True)
class Task:
    """Args:
    text: as it is asked, behind the shop's number.
    """

    shop: int
    family: str
    text: str

    @property
    def prompt(self) -> str:
        return f"Shop {self.shop}: {self.text}"


@dataclass(frozen=True)
class Settled:
    """Args:
    before, after: the shop as it is, and as it should be.
    moves: a way there; hint: the house's habit in it.
    """

    before: Shop
    after: Shop
    moves: list[Move]
    hint: str


def read_task(prompt: str) -> Task:
    """Raises GuiTaskError saying what was wanted and found."""
    found = _OPENING.fullmatch(prompt.strip())
    if found is None:
        raise GuiTaskError(f"wanted 'Shop NUMBER: ' and what is to be done there, found {prompt[:100]!r}")
    family = next((one for one in FAMILIES.values() if one.pattern.fullmatch(found[2])), None)
    if family is None:
        forms = "; ".join(one.form for one in FAMILIES.values())
        raise GuiTaskError(f"wanted one of: {forms}; found {found[2][:100]!r}")
    return Task(int(found[1]), family.name, found[2])


@lru_cache(maxsize=256)
def settle_task(task: Task) -> Settled:
    """What is right; to be read only. Raises GuiTaskError where it cannot be done in its shop, or is so already."""
    family = FAMILIES[task.family]
    found = family.pattern.fullmatch(task.text)
    if found is None:
        raise GuiTaskError(f"wanted {family.form!r}, found {task.text[:100]!r}")
    said, before = found.groupdict(), draw_shop(task.shop)
    after = deepcopy(before)
    moves, hint = family.settle(after, said), family.habit(before, said)
    if after == before:
        raise GuiTaskError(f"wanted something to do, found that {task.text!r} is so already")
    return Settled(before, after, moves, hint)


def is_held_out(task: Task) -> bool:
    """By what is asked, in whatever shop."""
    return sha256(task.text.encode()).digest()[0] % _HELD_OUT_OF == 0


def draw_task(rng: Random, *, held_out: bool, family: str = "") -> Task:
    """A task of a family, or of any, on its side of what is held out."""
    while True:
        one = FAMILIES[family or rng.choice(sorted(FAMILIES))]
        number = rng.randrange(SHOPS)
        task = Task(number, one.name, one.form.format(**one.draw(rng, draw_shop(number))))
        if is_held_out(task) == held_out:
            return task


# --- going about the pages -------------------------------------------------------------------------------------------


def _go(*names: str) -> list[Move]:
    return [Move("click", "link", name) for name in names]


def _press(name: str) -> Move:
    return Move("click", "button", name)


def _look_for(table: str, words: str, link: str) -> list[Move]:
    return [*_go(table), Move("type", "textbox", "Search", words), _press("Search"), *_go(link)]


def _find_product(shop: Shop, said: Said) -> dict[str, Any]:
    row = find_product(shop, said["product"])
    if row is None:
        raise GuiTaskError(f"wanted a product of the shop, found {said['product']!r}")
    return row


def _find_customer(shop: Shop, said: Said) -> dict[str, Any]:
    rows = [row for row in shop["customers"] if row["name"] == said["customer"]]
    if len(rows) != 1:
        raise GuiTaskError(f"wanted a customer of one name, found {len(rows)} of {said['customer']!r}")
    row: dict[str, Any] = rows[0]
    return row


def _read_count(said: Said) -> int:
    if not said["count"].isdecimal() or not 1 <= int(said["count"]) <= MOST_COUNT:
        raise GuiTaskError(f"wanted a number from 1 to {MOST_COUNT}, found {said['count']!r}")
    return int(said["count"])


# --- families --------------------------------------------------------------------------------------------------------


def _draw_order(rng: Random, shop: Shop) -> Said:
    row = rng.choice([one for one in shop["products"] if one["shown"]])
    return {"count": str(rng.randint(2, 9)), "product": row["name"]}


def _ship(shop: Shop, said: Said) -> str:
    return "parcel" if _find_product(shop, said)["kind"] == GLASS else "letter"


def _settle_order(shop: Shop, said: Said) -> list[Move]:
    row, count, shipping = _find_product(shop, said), _read_count(said), _ship(shop, said)
    if not row["shown"]:
        raise GuiTaskError(f"wanted a product that is sold, found {row['name']!r}")
    moves = _go("Cart")
    for line in shop["cart"]["lines"]:
        name = (find_row(shop, "products", line["product"]) or {})["name"]
        moves.append(_press(f"Remove {name}"))
    shop["cart"] = {"lines": [{"product": row["id"], "count": count}], "coupon": ""}
    write_order(shop, shipping)
    moves += _go("Start") + _look_for("Shop", row["name"], row["name"])
    moves += [Move("type", "textbox", "Quantity", str(count)), _press("Add to cart"), *_go("Check out")]
    return [*moves, Move("select", "combobox", "Shipping", shipping), _press("Place order")]


def _hint_order(shop: Shop, said: Said) -> str:
    return f"ship {_find_product(shop, said)['kind']} by {_ship(shop, said)}"


def _draw_change(rng: Random, shop: Shop) -> Said:
    line = rng.choice(shop["cart"]["lines"])
    row = find_row(shop, "products", line["product"]) or {}
    return {"count": str(rng.choice([one for one in range(2, 20) if _fill(row, one) != line["count"]])),
            "product": row["name"]}  # fmt: skip


def _fill(row: Mapping[str, Any], count: int) -> int:
    return -(-count // BOX) * BOX if row["box"] else count


def _settle_change(shop: Shop, said: Said) -> list[Move]:
    row, count = _find_product(shop, said), _read_count(said)
    line = next((one for one in shop["cart"]["lines"] if one["product"] == row["id"]), None)
    if line is None:
        raise GuiTaskError(f"wanted a product in the cart, found {row['name']!r}")
    line["count"] = _fill(row, count)
    typed = Move("type", "textbox", f"Quantity of {row['name']}", str(line["count"]))
    return [*_go("Cart"), typed, _press(f"Update {row['name']}")]


def _hint_change(shop: Shop, said: Said) -> str:
    is_boxed = _find_product(shop, said)["box"]
    return f"round up to full boxes of {BOX}" if is_boxed else "what is in no box is ordered by the piece"


def _draw_coupon(rng: Random, shop: Shop) -> Said:
    fitting = [one["percent"] for one in shop["coupons"] if not find_coupon_fault(shop, one["code"])]
    return {"percent": str(rng.randint(2, max(fitting)))}


def _settle_coupon(shop: Shop, said: Said) -> list[Move]:
    if not said["percent"].isdecimal():
        raise GuiTaskError(f"wanted a number of percent, found {said['percent']!r}")
    least = int(said["percent"])
    fits = [row for row in shop["coupons"] if row["percent"] >= least and not find_coupon_fault(shop, row["code"])]
    if not fits:
        raise GuiTaskError(f"wanted a share that a coupon gives, found {least} percent")
    code = min(fits, key=lambda row: row["ends"])["code"]
    shop["cart"]["coupon"] = code
    return [*_go("Cart"), Move("type", "textbox", "Coupon", code), _press("Apply coupon")]


def _draw_refund(rng: Random, shop: Shop) -> Said:
    order = rng.choice(shop["orders"])
    row = find_row(shop, "products", rng.choice(order["lines"])["product"]) or {}
    return {"product": row["name"], "order": str(order["id"])}


def _find_order(shop: Shop, said: Said) -> dict[str, Any]:
    order = find_row(shop, "orders", said["order"])
    if order is None:
        raise GuiTaskError(f"wanted an order of the shop, found {said['order']!r}")
    return order


def _settle_refund(shop: Shop, said: Said) -> list[Move]:
    order, row = _find_order(shop, said), _find_product(shop, said)
    line = next((one for one in order["lines"] if one["product"] == row["id"]), None)
    if line is None:
        raise GuiTaskError(f"wanted a product of order {order['id']}, found {row['name']!r}")
    amount, restock = line["count"] * line["price"], row["kind"] != GLASS
    refund(shop, order, line, amount, restock=restock)
    moves = [*_go("Orders", f"Order {order['id']}"), Move("select", "combobox", "Refunded product", row["name"])]
    moves += [Move("type", "textbox", "Amount", say_money(amount))]
    moves += [Move("click", "checkbox", "Back into stock")] if restock else []
    return [*moves, _press("Refund")]


def _hint_refund(shop: Shop, said: Said) -> str:
    is_glass = _find_product(shop, said)["kind"] == GLASS
    return "glass does not go back into stock" if is_glass else "it goes back into stock"


def _draw_price(rng: Random, shop: Shop) -> Said:
    return {"product": rng.choice(shop["products"])["name"], "price": f"{rng.randint(61, 99)}.00"}


def _settle_price(shop: Shop, said: Said) -> list[Move]:
    row = _find_product(shop, said)
    if not re.fullmatch(r"[1-9]\d{0,3}\.00", said["price"], re.ASCII):
        raise GuiTaskError(f"wanted a whole price such as 62.00, found {said['price']!r}")
    row["price"] = int(said["price"].partition(".")[0]) * 100 - 5
    moves = _look_for("Products", row["name"], row["name"])
    return [*moves, Move("type", "textbox", "Price", say_money(row["price"])), _press("Save")]


def _draw_reply(rng: Random, shop: Shop) -> Said:
    row = rng.choice([one for one in shop["messages"] if one["status"] == "new"])
    return {"customer": (find_row(shop, "customers", row["customer"]) or {})["name"], "reply": rng.choice(REPLIES)}


def _find_message(shop: Shop, said: Said) -> dict[str, Any]:
    ids = {row["id"] for row in shop["customers"] if row["name"] == said["customer"]}
    row: dict[str, Any] | None = next(
        (one for one in shop["messages"] if one["customer"] in ids and one["status"] == "new"), None
    )
    if row is None:
        raise GuiTaskError(f"wanted a customer whose message is new, found {said['customer']!r}")
    return row


def _tag(shop: Shop, said: Said) -> str:
    return {"Complaint": "lead", "Out of stock": "stock"}.get(_find_message(shop, said)["subject"], "care")


def _settle_reply(shop: Shop, said: Said) -> list[Move]:
    row, tag = _find_message(shop, said), _tag(shop, said)
    row |= {"status": "answered", "reply": said["reply"], "tag": tag}
    moves = [*_go("Messages", f"{row['subject']} from {said['customer']}")]
    moves += [Move("type", "textbox", "Reply", said["reply"]), Move("select", "combobox", "Tag", tag)]
    return [*moves, _press("Send reply")]


def _hint_reply(shop: Shop, said: Said) -> str:
    return f"tag such messages {_tag(shop, said)}"


def _draw_export(rng: Random, shop: Shop) -> Said:
    return {"status": rng.choice(STATUSES), "month": rng.choice(MONTHS)}


def _export_format(said: Said) -> str:
    return "tab" if said["status"] == "sent" else "semicolon"


def _settle_export(shop: Shop, said: Said) -> list[Move]:
    if said["status"] not in STATUSES or said["month"] not in MONTHS:
        raise GuiTaskError(
            f"wanted one of {', '.join((*STATUSES, *MONTHS))}, found {said['status']!r}, {said['month']!r}"
        )
    form = _export_format(said)
    write_export(shop, said["status"], said["month"], form)
    chosen = {"Status": said["status"], "Month": said["month"], "Format": form}
    return [*_go("Exports"), *(Move("select", "combobox", *one) for one in chosen.items()), _press("Export orders")]


def _draw_address(rng: Random, shop: Shop) -> Said:
    names = [row["name"] for row in shop["customers"]]
    name = rng.choice([one for one in names if names.count(one) == 1])
    return {"customer": name, "street": f"{rng.choice(STREETS)} {rng.randint(61, 99)}", "city": rng.choice(CITIES)}


def _moves_away(shop: Shop, said: Said) -> bool:
    return bool(_find_customer(shop, said)["city"] != said["city"])


def _settle_address(shop: Shop, said: Said) -> list[Move]:
    row, letter = _find_customer(shop, said), _moves_away(shop, said)
    moves = _look_for("Customers", row["name"], f"{row['name']} ({row['id']})")
    moves += [Move("type", "textbox", "Street", said["street"]), Move("type", "textbox", "City", said["city"])]
    moves += [Move("click", "checkbox", "Write them a letter")] if letter else []
    row |= {"street": said["street"], "city": said["city"], "letter": letter}
    return [*moves, _press("Save")]


def _hint_address(shop: Shop, said: Said) -> str:
    return "write a letter to who moves to another city" if _moves_away(shop, said) else "no letter within a city"


def _draw_merge(rng: Random, shop: Shop) -> Said:
    emails = [row["email"] for row in shop["customers"]]
    return {"email": next(one for one in emails if emails.count(one) == 2)}


def _settle_merge(shop: Shop, said: Said) -> list[Move]:
    rows = [row for row in shop["customers"] if row["email"] == said["email"]]
    if len(rows) != 2:
        raise GuiTaskError(f"wanted an address that two customers have, found {len(rows)} of {said['email']!r}")
    older, newer = sorted(rows, key=lambda row: int(row["id"]))
    names = [f"{row['name']} ({row['id']})" for row in (older, newer)]
    merge(shop, older, newer)
    moves = _look_for("Customers", older["name"], names[0])
    return [*moves, Move("select", "combobox", "Merge into", names[1]), _press("Merge")]


def _draw_stock(rng: Random, shop: Shop) -> Said:
    rows = [one for one in shop["products"] if one["shown"]], [one for one in shop["products"] if not one["shown"]]
    return {"count": str(rng.randint(2, 40)), "product": rng.choice(rng.choice(rows))["name"]}


def _settle_stock(shop: Shop, said: Said) -> list[Move]:
    row = _find_product(shop, said)
    stock = row["stock"] + _read_count(said)
    if stock > MOST_COUNT:
        raise GuiTaskError(f"wanted at most {MOST_COUNT} pieces on stock, found {stock}")
    moves = [*_look_for("Products", row["name"], row["name"]), Move("type", "textbox", "Stock", str(stock))]
    moves += [] if row["shown"] else [Move("click", "checkbox", "Shown in the shop")]
    row |= {"stock": stock, "shown": True}
    return [*moves, _press("Save")]


def _hint_stock(shop: Shop, said: Said) -> str:
    is_shown = _find_product(shop, said)["shown"]
    return "what is shown stays shown" if is_shown else "what comes in again is shown again"


FAMILIES: Final = {
    one.name: one
    for one in (
        Family("order", "Order {count} of {product}, and nothing else.", _draw_order, _settle_order, _hint_order),
        Family("change", "In the cart we need {count} of {product}.", _draw_change, _settle_change, _hint_change),
        Family("coupon", "Put a coupon on the cart that gives {percent} percent or more.", _draw_coupon, _settle_coupon,
               lambda _shop, _said: "of the coupons that fit take the one that ends first"),
        Family("refund", "Refund {product} of order {order}.", _draw_refund, _settle_refund, _hint_refund),
        Family("price", "{product} is to cost {price}.", _draw_price, _settle_price,
               lambda _shop, _said: "prices end in .95: take the one just below"),
        Family("reply", "Answer the message of {customer}: {reply}", _draw_reply, _settle_reply, _hint_reply),
        Family("export", "Export the {status} orders of {month}.", _draw_export, _settle_export,
               lambda _shop, said: f"export {said['status']} orders with {_export_format(said)}"),
        Family("address", "{customer} has moved to {street} in {city}.", _draw_address, _settle_address, _hint_address),
        Family("merge", "{email} is there twice: merge the two.", _draw_merge, _settle_merge,
               lambda _shop, _said: "the newer customer stays, which has the higher number"),
        Family("stock", "{count} of {product} have come in.", _draw_stock, _settle_stock, _hint_stock),
    )
}  # fmt: skip
