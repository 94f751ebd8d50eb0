"""The shop's site: the page of an address, and what a form that is sent changes in the shop. It runs no script."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from tentalis.core.gui.shop import (
    BOX,
    FORMATS,
    MONTHS,
    SHIPPINGS,
    STATUSES,
    TAGS,
    TODAY,
    Shop,
    find_coupon_fault,
    find_row,
    say_money,
    sum_cart,
)

START: Final = "/"
MOST_COUNT: Final = 999
MOST_TEXT: Final = 300
"""Characters of what a field of the site takes."""
_MONEY: Final = re.compile(r"(\d{1,5})(?:\.(\d{2}))?", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,5}", re.ASCII)
_ID: Final = r"/(\d{1,6})"
_STYLE: Final = (
    "*{margin:0;padding:0;box-sizing:border-box}body{font:14px/24px sans-serif;padding:8px}"
    "h1,p,tr{height:26px;white-space:nowrap;overflow:hidden}h1{font-size:18px}p.said{background:#fe9}"
    "td{padding-right:16px}form{display:inline}input,select,button{font:13px sans-serif;height:22px;padding:0 4px}"
    "input[type=checkbox]{width:16px;vertical-align:middle}"
)
"""Every line is as high on every machine, whatever its fonts: what is in view is the same everywhere."""

Form = Mapping[str, str]


class Page(NamedTuple):
    """Args:
    path: the address it is found under, which is another one than was asked for behind a form that was sent.
    """

    path: str
    html: str


def open_page(shop: Shop, path: str) -> Page:
    """The page of an address."""
    parts = urlsplit(path)
    asked = dict(parse_qsl(parts.query))
    for pattern, show, _ in _ROUTES:
        if (found := pattern.fullmatch(parts.path)) and (body := show(shop, asked, *found.groups())):
            return Page(path, _frame(asked, body))
    return Page(path, _frame(asked, ["<h1>There is no such page</h1>"]))


def send_form(shop: Shop, path: str, form: Form) -> Page:
    """Do what a form asks for, and show the page behind it. What it asks for wrongly changes nothing, and is said."""
    parts = urlsplit(path)
    for pattern, _, take in _ROUTES:
        if (found := pattern.fullmatch(parts.path)) and take is not None:
            try:
                where, said = take(shop, form, *found.groups())
            except _RefusedError as error:
                where, said = parts.path, str(error)
            return open_page(shop, f"{where}?{urlencode({'said': said})}")
    return open_page(shop, path)


class _RefusedError(Exception):
    """What a person at the page is told."""


# --- pieces of pages -------------------------------------------------------------------------------------------------


def _frame(asked: Form, body: Sequence[str]) -> str:
    said = f'<p class="said">{escape(asked["said"])}</p>' if asked.get("said") else ""
    lines = "".join(body)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title><style>{_STYLE}</style>'
        f"<body>{said}{lines}</body></html>"
    )


def _head(title: str) -> str:
    return f"<p>{_link(START, 'Start')}</p><h1>{escape(title)}</h1>"


def _link(path: str, words: str) -> str:
    return f'<a href="{escape(path)}">{escape(words)}</a>'


def _button(words: str, do: str = "") -> str:
    value = f' name="do" value="{do}"' if do else ""
    return f"<button{value}>{escape(words)}</button>"


def _text(label: str, name: str, value: object = "", width: int = 220) -> str:
    told = f'name="{name}" value="{escape(str(value))}" style="width:{width}px" autocomplete="off"'
    return f"<label>{escape(label)} <input {told}></label>"


def _choice(label: str, name: str, options: Sequence[str], chosen: str = "") -> str:
    told = "".join(f"<option{' selected' if one == chosen else ''}>{escape(one)}</option>" for one in options)
    return f'<label>{escape(label)} <select name="{name}">{told}</select></label>'


def _tick(label: str, name: str, *, is_on: bool) -> str:
    return f'<label><input type="checkbox" name="{name}"{" checked" if is_on else ""}> {escape(label)}</label>'


def _form(path: str, *lines: str, method: str = "post") -> str:
    fields = "".join(f"<p>{line}</p>" for line in lines)
    return f'<form method="{method}" action="{escape(path)}">{fields}</form>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{one}</tr>' for one in cells)}</table>"


def _search(path: str, asked: Form) -> str:
    return _form(path, f"{_text('Search', 'q', asked.get('q', ''))} {_button('Search')}", method="get")


def _matches(words: str, asked: Form) -> bool:
    return asked.get("q", "").strip().casefold() in words.casefold()


def _customer(shop: Shop, row_id: int) -> str:
    row = find_row(shop, "customers", row_id)
    return row["name"] if row else "the house"


def _product(shop: Shop, row_id: int) -> str:
    row = find_row(shop, "products", row_id)
    return row["name"] if row else "a product"


def _need_row(shop: Shop, table: str, row_id: object) -> dict[str, Any]:
    row = find_row(shop, table, row_id)
    if row is None:
        raise _RefusedError("This is not there any more.")
    return row


# --- what a form says ------------------------------------------------------------------------------------------------


def _read_count(form: Form, name: str, *, least: int = 1, most: int = MOST_COUNT) -> int:
    told = form.get(name, "").strip()
    if not _COUNT.fullmatch(told) or not least <= int(told) <= most:
        raise _RefusedError(f"Please give a number from {least} to {most}.")
    return int(told)


def _read_money(form: Form, name: str) -> int:
    found = _MONEY.fullmatch(form.get(name, "").strip())
    if not found:
        raise _RefusedError("Please give an amount such as 12.50.")
    return int(found[1]) * 100 + int(found[2] or 0)


def _read_text(form: Form, name: str, label: str) -> str:
    told = " ".join(form.get(name, "").split())
    if not 0 < len(told) <= MOST_TEXT:
        raise _RefusedError(f"{label}: please write 1 to {MOST_TEXT} characters.")
    return told


def _read_choice(form: Form, name: str, options: Sequence[str]) -> str:
    if (told := form.get(name, "")) not in options:
        raise _RefusedError(f"Please choose one of {', '.join(options)}.")
    return told


# --- the shop --------------------------------------------------------------------------------------------------------


def _show_start(shop: Shop, asked: Form) -> list[str]:
    shops = [_link("/shop", "Shop"), _link("/cart", "Cart"), _link("/coupons", "Coupons")]
    office = [("/products", "Products"), ("/orders", "Orders"), ("/customers", "Customers")]
    office += [("/messages", "Messages"), ("/exports", "Exports")]
    links = " ".join(shops), " ".join(_link(path, words) for path, words in office)
    return [f"<h1>Start</h1><p>{links[0]}</p><p>{links[1]}</p>"]


def _show_shop(shop: Shop, asked: Form) -> list[str]:
    found = [row for row in shop["products"] if row["shown"] and _matches(row["name"], asked)]
    rows = [[_link(f"/shop/{row['id']}", row["name"]), say_money(row["price"])] for row in found]
    return [_head("Shop"), _search("/shop", asked), _table(rows)]


def _show_offer(shop: Shop, asked: Form, row_id: str) -> list[str]:
    row = find_row(shop, "products", row_id)
    if row is None or not row["shown"]:
        return []
    told = f"{say_money(row['price'])}, {row['kind']}{f', {BOX} in a box' if row['box'] else ''}"
    return [_head(row["name"]), f"<p>{told}</p>",
            _form(f"/shop/{row_id}", f"{_text('Quantity', 'count', 1, 60)} {_button('Add to cart')}")]  # fmt: skip


def _add_to_cart(shop: Shop, form: Form, row_id: str) -> tuple[str, str]:
    row = find_row(shop, "products", row_id)
    if row is None or not row["shown"]:
        raise _RefusedError("This is not sold any more.")
    count, lines = _read_count(form, "count"), shop["cart"]["lines"]
    line = next((one for one in lines if one["product"] == row["id"]), None)
    if line is None:
        lines.append({"product": row["id"], "count": count})
    else:
        line["count"] = min(line["count"] + count, MOST_COUNT)
    return "/cart", "Added."


def _show_cart(shop: Shop, asked: Form) -> list[str]:
    cart, rows = shop["cart"], []
    for line in cart["lines"]:
        row = _need_row(shop, "products", line["product"])
        name = row["name"]
        fields = [
            _text(f"Quantity of {name}", "count", line["count"], 50),
            _button(f"Update {name}", f"update-{row['id']}"), _button(f"Remove {name}", f"remove-{row['id']}"),
        ]  # fmt: skip
        box = f", {BOX} in a box" if row["box"] else ""
        joined = " ".join(fields)
        price = f"{say_money(row['price'])}{box}"
        rows.append([f'<form method="post" action="/cart">{joined}</form>', price])
    coupon = f"Coupon on the cart: {cart['coupon'] or 'none'}"
    told = [_table(rows), f"<p>Total {say_money(sum_cart(shop))}</p><p>{coupon}</p>"]
    told.append(_form("/cart", f"{_text('Coupon', 'code', '', 120)} {_button('Apply coupon', 'coupon')}"))
    return [_head("Cart"), *told, f"<p>{_link('/checkout', 'Check out')}</p>"]


def _change_cart(shop: Shop, form: Form) -> tuple[str, str]:
    do, _, row_id = form.get("do", "").partition("-")
    if do == "coupon":
        code = form.get("code", "").strip().upper()
        if fault := find_coupon_fault(shop, code):
            raise _RefusedError(fault)
        shop["cart"]["coupon"] = code
        return "/cart", "The coupon is on the cart."
    lines = shop["cart"]["lines"]
    line = next((one for one in lines if str(one["product"]) == row_id), None)
    if line is None or do not in {"update", "remove"}:
        raise _RefusedError("This is not in the cart any more.")
    if do == "remove":
        lines.remove(line)
    else:
        line["count"] = _read_count(form, "count")
    if shop["cart"]["coupon"] and find_coupon_fault(shop, shop["cart"]["coupon"]):
        shop["cart"]["coupon"] = ""
    return "/cart", "The cart is changed."


def _show_checkout(shop: Shop, asked: Form) -> list[str]:
    rows = [[_product(shop, line["product"]), str(line["count"])] for line in shop["cart"]["lines"]]
    form = _form("/checkout", _choice("Shipping", "shipping", SHIPPINGS), _button("Place order"))
    return [_head("Check out"), _table(rows), form if rows else "<p>The cart is empty.</p>"]


def _place_order(shop: Shop, form: Form) -> tuple[str, str]:
    if not shop["cart"]["lines"]:
        raise _RefusedError("The cart is empty.")
    row = write_order(shop, _read_choice(form, "shipping", SHIPPINGS))
    return f"/orders/{row['id']}", "Thank you for the order."


def write_order(shop: Shop, shipping: str) -> dict[str, Any]:
    """The cart as an order of the house's own, and an empty cart."""
    prices = {row["id"]: row["price"] for row in shop["products"]}
    lines = [{**line, "price": prices[line["product"]]} for line in shop["cart"]["lines"]]
    row = {
        "id": max(one["id"] for one in shop["orders"]) + 1, "customer": 0, "month": MONTHS[int(TODAY[5:7]) - 1],
        "status": "open", "lines": lines, "shipping": shipping, "coupon": shop["cart"]["coupon"], "refunds": [],
    }  # fmt: skip
    shop["orders"].append(row)
    shop["cart"] = {"lines": [], "coupon": ""}
    return row


def _show_coupons(shop: Shop, asked: Form) -> list[str]:
    rows = [
        [
            row["code"],
            f"{row['percent']} %",
            f"for {row['kind']}",
            f"from {say_money(row['least'])}",
            f"ends {row['ends']}",
        ]
        for row in shop["coupons"]
    ]
    return [_head("Coupons"), f"<p>Today is {TODAY}</p>", _table(rows)]


# --- the office ------------------------------------------------------------------------------------------------------


def _show_products(shop: Shop, asked: Form) -> list[str]:
    rows = [
        [_link(f"/products/{row['id']}", row["name"]), say_money(row["price"]), f"stock {row['stock']}"]
        for row in shop["products"]
        if _matches(row["name"], asked)
    ]
    return [_head("Products"), _search("/products", asked), _table(rows)]


def _show_product(shop: Shop, asked: Form, row_id: str) -> list[str]:
    row = find_row(shop, "products", row_id)
    if row is None:
        return []
    fields = [
        _text("Price", "price", say_money(row["price"]), 80), _text("Stock", "stock", row["stock"], 80),
        _tick("Shown in the shop", "shown", is_on=row["shown"]), _button("Save"),
    ]  # fmt: skip
    return [_head(row["name"]), f"<p>{row['kind']}</p>", _form(f"/products/{row_id}", *fields)]


def _save_product(shop: Shop, form: Form, row_id: str) -> tuple[str, str]:
    row = _need_row(shop, "products", row_id)
    price, stock = _read_money(form, "price"), _read_count(form, "stock", least=0)
    row |= {"price": price, "stock": stock, "shown": "shown" in form}
    return f"/products/{row_id}", "Saved."


def _show_orders(shop: Shop, asked: Form) -> list[str]:
    status = asked.get("status", "all")
    rows = [
        [
            _link(f"/orders/{row['id']}", f"Order {row['id']}"),
            _customer(shop, row["customer"]),
            row["month"],
            row["status"],
        ]
        for row in shop["orders"]
        if status in {"all", row["status"]}
    ]
    fields = f"{_choice('Status', 'status', ['all', *STATUSES], status)} {_button('Filter')}"
    return [_head("Orders"), _form("/orders", fields, method="get"), _table(rows)]


def _show_order(shop: Shop, asked: Form, row_id: str) -> list[str]:
    row = find_row(shop, "orders", row_id)
    if row is None:
        return []
    names = [_product(shop, line["product"]) for line in row["lines"]]
    rows = [
        [name, f"{line['count']} at {say_money(line['price'])}"] for name, line in zip(names, row["lines"], strict=True)
    ]
    told = [
        f"<p>Customer: {escape(_customer(shop, row['customer']))}, {row['month']}, {row['shipping']}</p>",
        _table(rows),
    ]
    told += [f"<p>Refunded: {_product(shop, one['product'])} {say_money(one['amount'])}</p>" for one in row["refunds"]]
    status = f"{_choice('Status', 'status', STATUSES, row['status'])} {_button('Save status', 'status')}"
    refund = [
        f"{_choice('Refunded product', 'product', names)} {_text('Amount', 'amount', '', 80)}",
        f"{_tick('Back into stock', 'restock', is_on=False)} {_button('Refund', 'refund')}",
    ]
    return [_head(f"Order {row_id}"), *told, _form(f"/orders/{row_id}", status), _form(f"/orders/{row_id}", *refund)]


def _change_order(shop: Shop, form: Form, row_id: str) -> tuple[str, str]:
    row = _need_row(shop, "orders", row_id)
    if "status" in form:
        row["status"] = _read_choice(form, "status", STATUSES)
        return f"/orders/{row_id}", "Saved."
    names = {_product(shop, line["product"]): line for line in row["lines"]}
    line = names[_read_choice(form, "product", list(names))]
    amount = _read_money(form, "amount")
    if not 0 < amount <= line["count"] * line["price"]:
        raise _RefusedError(f"Please give an amount up to {say_money(line['count'] * line['price'])}.")
    if any(one["product"] == line["product"] for one in row["refunds"]):
        raise _RefusedError("This was refunded before.")
    refund(shop, row, line, amount, restock="restock" in form)
    return f"/orders/{row_id}", "Refunded."


def refund(shop: Shop, order: dict[str, Any], line: Mapping[str, Any], amount: int, *, restock: bool) -> None:
    """Pay an amount of a line back."""
    order["refunds"].append({"product": line["product"], "amount": amount, "restock": restock})
    if restock:
        _need_row(shop, "products", line["product"])["stock"] += line["count"]


def _show_customers(shop: Shop, asked: Form) -> list[str]:
    rows = [
        [_link(f"/customers/{row['id']}", f"{row['name']} ({row['id']})"), escape(row["email"]), escape(row["city"])]
        for row in shop["customers"]
        if not row["merged_into"] and _matches(row["name"], asked)
    ]
    return [_head("Customers"), _search("/customers", asked), _table(rows)]


def _show_customer(shop: Shop, asked: Form, row_id: str) -> list[str]:
    row = find_row(shop, "customers", row_id)
    if row is None or row["merged_into"]:
        return []
    path = f"/customers/{row_id}"
    fields = [
        _text("Street", "street", row["street"]), _text("City", "city", row["city"]),
        _tick("Write them a letter", "letter", is_on=row["letter"]), _button("Save", "save"),
    ]  # fmt: skip
    orders = [str(one["id"]) for one in shop["orders"] if one["customer"] == row["id"]]
    told = [f"<p>{escape(row['email'])}</p>", f"<p>Orders: {', '.join(orders) or 'none'}</p>", _form(path, *fields)]
    twins = [f"{one['name']} ({one['id']})" for one in _list_twins(shop, row)]
    if twins:
        told.append(_form(path, f"{_choice('Merge into', 'into', twins)} {_button('Merge', 'merge')}"))
    return [_head(f"{row['name']} ({row_id})"), *told]


def _list_twins(shop: Shop, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = shop["customers"]
    return [one for one in rows if one["name"] == row["name"] and one["id"] != row["id"] and not one["merged_into"]]


def _change_customer(shop: Shop, form: Form, row_id: str) -> tuple[str, str]:
    row = find_row(shop, "customers", row_id)
    if row is None or row["merged_into"]:
        raise _RefusedError("This customer is not there any more.")
    if "into" in form:
        twins = {f"{one['name']} ({one['id']})": one for one in _list_twins(shop, row)}
        into = twins[_read_choice(form, "into", list(twins))]
        merge(shop, row, into)
        return f"/customers/{into['id']}", "Merged."
    street, city = _read_text(form, "street", "Street"), _read_text(form, "city", "City")
    row |= {"street": street, "city": city, "letter": "letter" in form}
    return f"/customers/{row_id}", "Saved."


def merge(shop: Shop, row: dict[str, Any], into: Mapping[str, Any]) -> None:
    """Give all that a customer has to another one, who stays."""
    row["merged_into"] = into["id"]
    for one in (*shop["orders"], *shop["messages"]):
        if one["customer"] == row["id"]:
            one["customer"] = into["id"]


def _show_messages(shop: Shop, asked: Form) -> list[str]:
    rows = [
        [_link(f"/messages/{row['id']}", f"{row['subject']} from {_customer(shop, row['customer'])}"), row["status"]]
        for row in shop["messages"]
    ]
    return [_head("Messages"), _table(rows)]


def _show_message(shop: Shop, asked: Form, row_id: str) -> list[str]:
    row = find_row(shop, "messages", row_id)
    if row is None:
        return []
    title = f"{row['subject']} from {_customer(shop, row['customer'])}"
    if row["status"] == "answered":
        return [_head(title), f"<p>Answered: {escape(row['reply'])}</p>", f"<p>Tag: {row['tag']}</p>"]
    fields = [_text("Reply", "reply", "", 420), _choice("Tag", "tag", TAGS), _button("Send reply")]
    return [_head(title), _form(f"/messages/{row_id}", *fields)]


def _answer_message(shop: Shop, form: Form, row_id: str) -> tuple[str, str]:
    row = _need_row(shop, "messages", row_id)
    if row["status"] != "new":
        raise _RefusedError("This message was answered before.")
    reply, tag = _read_text(form, "reply", "Reply"), _read_choice(form, "tag", TAGS)
    row |= {"status": "answered", "reply": reply, "tag": tag}
    return "/messages", "Sent."


def _show_exports(shop: Shop, asked: Form) -> list[str]:
    fields = [
        _choice("Status", "status", ["all", *STATUSES]), _choice("Month", "month", ["all", *MONTHS]),
        _choice("Format", "format", FORMATS), _button("Export orders"),
    ]  # fmt: skip
    rows = [[f"Export {row['id']}", row["status"], row["month"], row["format"]] for row in shop["exports"]]
    return [_head("Exports"), _form("/exports", *fields), _table(rows)]


def _export(shop: Shop, form: Form) -> tuple[str, str]:
    status = _read_choice(form, "status", ["all", *STATUSES])
    month = _read_choice(form, "month", ["all", *MONTHS])
    write_export(shop, status, month, _read_choice(form, "format", FORMATS))
    return "/exports", "Exported."


def write_export(shop: Shop, status: str, month: str, form: str) -> None:
    number = len(shop["exports"]) + 1
    shop["exports"].append({"id": number, "status": status, "month": month, "format": form})


_Show = Callable[..., list[str]]
_Take = Callable[..., tuple[str, str]]
_ROUTES: Final[tuple[tuple[re.Pattern[str], _Show, _Take | None], ...]] = (
    (re.compile("/"), _show_start, None),
    (re.compile("/shop"), _show_shop, None),
    (re.compile(f"/shop{_ID}"), _show_offer, _add_to_cart),
    (re.compile("/cart"), _show_cart, _change_cart),
    (re.compile("/checkout"), _show_checkout, _place_order),
    (re.compile("/coupons"), _show_coupons, None),
    (re.compile("/products"), _show_products, None),
    (re.compile(f"/products{_ID}"), _show_product, _save_product),
    (re.compile("/orders"), _show_orders, None),
    (re.compile(f"/orders{_ID}"), _show_order, _change_order),
    (re.compile("/customers"), _show_customers, None),
    (re.compile(f"/customers{_ID}"), _show_customer, _change_customer),
    (re.compile("/messages"), _show_messages, None),
    (re.compile(f"/messages{_ID}"), _show_message, _answer_message),
    (re.compile("/exports"), _show_exports, _export),
)
