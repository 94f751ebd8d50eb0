"""The shop's database: tables of JSON, drawn from a number. The same number gives the same shop everywhere."""

from random import Random
from typing import Any, Final

Shop = dict[str, Any]
"""products, customers, orders, messages, coupons: rows with ids; cart: what the house is about to order; exports."""

TODAY: Final = "2031-05-14"
MONTHS: Final = ("January", "February", "March", "April", "May", "June")
STATUSES: Final = ("open", "paid", "sent", "cancelled")
SHIPPINGS: Final = ("pickup", "letter", "parcel")
TAGS: Final = ("none", "care", "lead", "stock")
FORMATS: Final = ("comma", "semicolon", "tab")
BOX: Final = 6
"""Pieces in a full box, of products that come in boxes."""
GLASS: Final = "glass"
COLOURS: Final = ("Amber", "Black", "Blue", "Green", "Grey", "Red", "White", "Yellow")
NOUNS: Final = {
    "bowl": GLASS, "jug": GLASS, "vase": GLASS, "tumbler": GLASS, "towel": "cloth", "apron": "cloth",
    "cushion": "cloth", "notebook": "paper", "calendar": "paper", "card": "paper",
}  # fmt: skip
FIRST: Final = ("Ann", "Ben", "Carla", "David", "Eva", "Finn", "Greta", "Hugo", "Ida", "Jan", "Kim", "Lea")
LAST: Final = ("Adler", "Berg", "Conti", "Dorn", "Egli", "Frey", "Gross", "Huber", "Imhof", "Jung", "Keller", "Lang")
STREETS: Final = ("Lake Street", "Mill Lane", "Station Road", "Church Hill", "Garden Row", "Bridge Street")
CITIES: Final = ("Aarau", "Basel", "Bern", "Chur", "Olten", "Thun", "Zug")
SUBJECTS: Final = ("Delivery", "Complaint", "Opening hours", "Invoice", "Out of stock")
PRODUCTS: Final = 14
CUSTOMERS: Final = 10
ORDERS: Final = 12


def say_money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def draw_shop(number: int) -> Shop:
    """A whole shop, in which every kind of task can be asked."""
    rng = Random(f"shop {number}")
    shop: Shop = {"products": _draw_products(rng), "customers": _draw_customers(rng), "exports": []}
    shop["orders"] = [_draw_order(rng, 1001 + place, shop) for place in range(ORDERS)]
    shop["messages"] = _draw_messages(rng, shop)
    lines = [{"product": row["id"], "count": rng.randint(1, 5)} for row in rng.sample(_list_shown(shop), 3)]
    shop["cart"] = {"lines": lines, "coupon": ""}
    shop["coupons"] = _draw_coupons(rng, shop)
    return shop


def find_row(shop: Shop, table: str, row_id: object) -> dict[str, Any] | None:
    """The row of that id, which may be told as text."""
    return next((row for row in shop[table] if str(row["id"]) == str(row_id)), None)


def find_product(shop: Shop, name: str) -> dict[str, Any] | None:
    return next((row for row in shop["products"] if row["name"] == name), None)


def sum_cart(shop: Shop) -> int:
    """What is in the cart costs, in cents, without a coupon."""
    prices = {row["id"]: row["price"] for row in shop["products"]}
    return sum(prices[line["product"]] * line["count"] for line in shop["cart"]["lines"])


def find_coupon_fault(shop: Shop, code: str) -> str:
    """Why a coupon cannot be used on the cart; "" where it can."""
    row = next((one for one in shop["coupons"] if one["code"] == code), None)
    kinds = {row["id"]: row["kind"] for row in shop["products"]}
    if row is None:
        return "There is no such coupon."
    if row["ends"] < TODAY:
        return "This coupon has ended."
    if row["kind"] != "all" and row["kind"] not in {kinds[line["product"]] for line in shop["cart"]["lines"]}:
        return f"This coupon is for {row['kind']}."
    return "" if sum_cart(shop) >= row["least"] else f"This coupon is for carts from {say_money(row['least'])}."


def _list_shown(shop: Shop) -> list[dict[str, Any]]:
    return [row for row in shop["products"] if row["shown"]]


def _draw_products(rng: Random) -> list[dict[str, Any]]:
    """Of each noun some colours, so that names are much alike; two are sold out, and hidden for it."""
    names = rng.sample([(colour, noun) for colour in COLOURS for noun in NOUNS], PRODUCTS - 2)
    colour, noun = names[0]
    names += [(f"Large {colour.lower()}", noun), (f"Used {colour.lower()}", noun)]
    rng.shuffle(names)
    sold_out = set(rng.sample(range(PRODUCTS), 2))
    return [
        {
            "id": place + 1,
            "name": f"{colour} {noun}",
            "kind": NOUNS[noun],
            "price": rng.randrange(4, 60) * 100 + rng.choice((0, 50, 95)),
            "stock": 0 if place in sold_out else rng.randint(3, 40),
            "box": rng.random() < 0.5,
            "shown": place not in sold_out,
        }
        for place, (colour, noun) in enumerate(names)
    ]


def _draw_customers(rng: Random) -> list[dict[str, Any]]:
    """Two rows are one person, by their address for mail; a third has the name alone."""
    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], CUSTOMERS - 2)
    rows = [(name, f"{name.replace(' ', '.').lower()}@post.test") for name in names]
    twin = rows[0]
    rows += [twin, (twin[0], f"{twin[0].replace(' ', '').lower()}@mail.test")]
    rng.shuffle(rows)
    return [
        {
            "id": 11 + place,
            "name": name,
            "email": email,
            "street": f"{rng.choice(STREETS)} {rng.randint(1, 60)}",
            "city": rng.choice(CITIES),
            "letter": False,
            "merged_into": 0,
        }
        for place, (name, email) in enumerate(rows)
    ]


def _draw_order(rng: Random, order_id: int, shop: Shop) -> dict[str, Any]:
    lines = [
        {"product": row["id"], "count": rng.randint(1, 4), "price": row["price"]}
        for row in rng.sample(shop["products"], rng.randint(2, 3))
    ]
    customer = rng.choice(shop["customers"])["id"]
    shipping, status = rng.choice(SHIPPINGS), rng.choice(STATUSES[:3])
    return {
        "id": order_id, "customer": customer, "month": rng.choice(MONTHS), "status": status, "lines": lines,
        "shipping": shipping, "coupon": "", "refunds": [],
    }  # fmt: skip


def _draw_messages(rng: Random, shop: Shop) -> list[dict[str, Any]]:
    """Each of another customer; one was answered before."""
    seen: dict[str, int] = {}
    for row in shop["customers"]:
        seen.setdefault(row["name"], row["id"])
    writers = rng.sample(sorted(seen.values()), len(SUBJECTS))
    subjects = rng.sample(SUBJECTS, len(SUBJECTS))
    rows = [
        {"id": 51 + place, "customer": writer, "subject": subject, "status": "new", "reply": "", "tag": "none"}
        for place, (writer, subject) in enumerate(zip(writers, subjects, strict=True))
    ]
    rows[0] |= {"status": "answered", "reply": "We are looking into it.", "tag": "care"}
    return rows


def _draw_coupons(rng: Random, shop: Shop) -> list[dict[str, Any]]:
    """Two that fit the cart, of which the one that ends later gives more; and four that do not fit."""
    total, in_cart = sum_cart(shop), {line["product"] for line in shop["cart"]["lines"]}
    kinds = sorted({row["kind"] for row in shop["products"] if row["id"] in in_cart})
    others = sorted(set(NOUNS.values()) - set(kinds)) or ["garden"]
    soon, late, percent = rng.randint(16, 22), rng.randint(24, 30), rng.randint(6, 12)
    rows = [
        (rng.choice(["all", *kinds]), percent, 0, f"2031-05-{soon}"),
        (rng.choice(["all", *kinds]), percent + rng.randint(3, 9), 0, f"2031-05-{late}"),
        ("all", percent + 10, 0, f"2031-05-{rng.randint(1, 13):02d}"),
        ("all", percent + 12, (total // 1000 + rng.randint(2, 9)) * 1000, "2031-05-15"),
        (rng.choice(others), percent + 14, 0, "2031-05-15"),
        (rng.choice(["all", *kinds]), percent - 4, 0, "2031-05-15"),
    ]
    rng.shuffle(rows)
    words = rng.sample(("SUN", "RAIN", "WIND", "SNOW", "LEAF", "STAR", "FERN", "MOSS"), len(rows))
    return [
        {"id": place + 1, "code": f"{word}{percent}", "kind": kind, "percent": percent, "least": least, "ends": ends}
        for place, (word, (kind, percent, least, ends)) in enumerate(zip(words, rows, strict=True))
    ]
