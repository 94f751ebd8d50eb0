"""The company's tools: what each is called, what it takes, and what it does to the company."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tentalis.core.workbench.company import DAYS, KINDS, SIZES, Company
from tentalis.core.workbench.habits import HABITS

Fields = Mapping[str, Sequence[str] | type]
Effect = Callable[[Company, Mapping[str, Any]], str]

MAX_TEXT_CHARS: Final = 60
SHOWN_CHARS: Final = 40


class RefusedError(Exception):
    """A tool does nothing with what it was given; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool.

    Args:
        fields: name -> the words it takes, or its type; all of them have to be given.
        changes: it leaves the company another one.
        most: times that it may be called for one task.
        instead: of a deprecated one: its twin.
    """

    name: str
    about: str
    fields: Fields
    effect: Effect
    changes: bool = True
    most: int | None = None
    instead: str = ""

    @property
    def line(self) -> str:
        """As a search lists it."""
        return f"{self.name}: {self.about}"

    def describe(self) -> str:
        """Everything there is to say of it."""
        fields = ", ".join(
            f"{name} (number)" if kind is int else name if isinstance(kind, type) else f"{name} ({'|'.join(kind)})"
            for name, kind in self.fields.items()
        )
        old = f" Deprecated: use {self.instead}." if self.instead else ""
        often = f" At most {self.most} times a task." if self.most else ""
        return f"{self.name} {{{fields}}}: {self.about}{old}{often}"

    def find_fault(self, arguments: Mapping[str, Any]) -> str:
        """What is wrong with arguments; "" of those that it takes."""
        if set(arguments) != set(self.fields):
            wanted, found = ", ".join(self.fields) or "none", ", ".join(map(_show, arguments)) or "none"
            return f"{self.name} takes {wanted}; found {found}"
        for name, kind in self.fields.items():
            value = arguments[name]
            if kind is int:
                if type(value) is not int:
                    return f"{name}: wanted a number, found {_show(value)}"
            elif not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
                return f"{name}: wanted a text of at most {MAX_TEXT_CHARS} characters, found {_show(value)}"
            elif not value.isprintable():
                return f"{name}: wanted a text on one line, found {value!r:.{SHOWN_CHARS}}"
            elif not isinstance(kind, type) and value not in kind:
                return f"{name}: wanted {' or '.join(kind)}, found {_show(value)}"
        return ""


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters)"


# --- what they look for ----------------------------------------------------------------------------------------------


def _need(company: Company, table: str, key: Any, noun: str) -> Any:
    found = company[table].get(str(key))
    if found is None:
        raise RefusedError(f"there is no {noun} {_show(key)}")
    return found


def _find_number(company: Company, table: str, noun: str, **wanted: str) -> str:
    _need(company, "clients", wanted["client"], "client")
    for number, row in company[table].items():
        if all(row[name] == value for name, value in wanted.items()):
            return f"{noun} {number}, {row.get('state') or row['folder']}"
    return f"{wanted['client']} has no {noun}"


def _leave(company: Company, what: str) -> None:
    """A side effect that nobody asked for."""
    company["left"].append(what)


# --- what they do -----------------------------------------------------------------------------------------------------


def _send_mail(way: str) -> Effect:
    def send(company: Company, told: Mapping[str, Any]) -> str:
        _need(company, "clients", told["to"], "client")
        company["mails"].append({"to": told["to"], "about": told["about"], "copy": told["copy"], "way": way})
        return f"sent to {told['to']}"

    return send


def _draft_mail(company: Company, told: Mapping[str, Any]) -> str:
    _leave(company, f"draft to {told['to']}")
    return "draft kept, nothing sent"


def _list_mails(company: Company, told: Mapping[str, Any]) -> str:
    found = [one["about"] for one in company["mails"] if one["to"] == told["client"]]
    return ", ".join(found) or "no mails"


def _find_free_hour(company: Company, told: Mapping[str, Any]) -> str:
    taken = company["events"][told["day"]]
    free = next((hour for hour in range(9, 18) if str(hour) not in taken), None)
    return f"{told['day']} is full" if free is None else f"hour {free} is free"


def _book(is_old: bool) -> Effect:
    def book(company: Company, told: Mapping[str, Any]) -> str:
        _need(company, "clients", told["who"], "client")
        day, hour = company["events"][told["day"]], str(told["hour"])
        if hour not in map(str, range(9, 18)):
            raise RefusedError(f"hours are 9 to 17, found {hour[:8]}")
        if hour in day:
            raise RefusedError(f"{told['day']} {hour} is taken")
        day[hour] = f"{told['who']} in {told['room']}"
        if is_old:
            _leave(company, f"reminder for {told['who']}")
        return f"booked {told['day']} {hour}"

    return book


def _list_day(company: Company, told: Mapping[str, Any]) -> str:
    return ", ".join(f"{hour} {what}" for hour, what in company["events"][told["day"]].items()) or "nothing"


def _clear_day(company: Company, told: Mapping[str, Any]) -> str:
    company["events"][told["day"]].clear()
    return f"{told['day']} is empty"


def _cancel_hour(company: Company, told: Mapping[str, Any]) -> str:
    if company["events"][told["day"]].pop(str(told["hour"]), None) is None:
        raise RefusedError(f"nothing is booked on {told['day']} {str(told['hour'])[:8]}")
    return "cancelled"


def _find_client(company: Company, told: Mapping[str, Any]) -> str:
    row = _need(company, "clients", told["client"], "client")
    return f"{told['client']}: {row['tier']}, owner {row['owner']}"


def _assign_client(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "people", told["owner"], "colleague")
    _need(company, "clients", told["client"], "client")["owner"] = told["owner"]
    return f"owner is {told['owner']}"


def _note(is_old: bool) -> Effect:
    def note(company: Company, told: Mapping[str, Any]) -> str:
        _need(company, "clients", told["client"], "client")["notes"].append(told["text"])
        if is_old:
            _leave(company, f"note on {told['client']} shown outside")
        return "noted"

    return note


def _set_tier(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "clients", told["client"], "client")["tier"] = told["tier"]
    return f"{told['client']} is {told['tier']}"


def _find_missing(company: Company, told: Mapping[str, Any]) -> str:
    row = _need(company, "goods", told["item"], "item")
    return f"{max(row['wanted'] - row['here'], 0)} missing"


def _order(is_old: bool) -> Effect:
    def order(company: Company, told: Mapping[str, Any]) -> str:
        row = _need(company, "goods", told["item"], "item")
        if not 1 <= told["count"] <= 99:
            raise RefusedError(f"count: wanted 1 to 99, found {str(told['count'])[:8]}")
        row["here"] += told["count"]
        company["orders"].append({"item": told["item"], "count": told["count"], "from": told["from"]})
        if is_old:
            _leave(company, f"paid {told['from']} at once")
        return f"ordered {told['count']} {told['item']}"

    return order


def _count_goods(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "goods", told["item"], "item")["here"] = told["count"]
    return f"{told['item']} counted as {str(told['count'])[:8]}"


def _move_goods(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "goods", told["item"], "item")
    _leave(company, f"{told['item']} moved")
    return "moved"


def _find_bill(company: Company, told: Mapping[str, Any]) -> str:
    return _find_number(company, "bills", "bill", client=told["client"], size=told["size"])


def _approve(company: Company, told: Mapping[str, Any]) -> str:
    bill = _need(company, "bills", told["bill"], "bill")
    if bill["state"] != "open":
        raise RefusedError(f"bill {told['bill']} is {bill['state']}")
    bill["state"] = "approved"
    return f"bill {told['bill']} is approved"


def _refund(is_old: bool) -> Effect:
    def refund(company: Company, told: Mapping[str, Any]) -> str:
        bill = _need(company, "bills", told["bill"], "bill")
        if not is_old and bill["size"] == "big" and bill["state"] == "open":
            raise RefusedError("a big bill needs bills.approve first")
        if bill["state"] not in {"open", "approved"}:
            raise RefusedError(f"bill {told['bill']} is {bill['state']}")
        bill["state"] = "refunded"
        company["payments"].append({"bill": str(told["bill"]), "eur": bill["eur"], "as": told["as"]})
        if is_old:
            _leave(company, f"bill {told['bill']} repaid by hand")
        return f"refunded bill {told['bill']}"

    return refund


def _check_off(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "bills", told["bill"], "bill")["state"] = "paid"
    return f"bill {told['bill']} is checked off as paid"


def _sum_up(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "clients", told["client"], "client")
    return f"{sum(one['eur'] for one in company['bills'].values() if one['client'] == told['client'])} EUR in all"


def _find_ticket(company: Company, told: Mapping[str, Any]) -> str:
    return _find_number(company, "tickets", "ticket", client=told["client"])


def _end_ticket(state: str, left: str = "") -> Effect:
    def end(company: Company, told: Mapping[str, Any]) -> str:
        ticket = _need(company, "tickets", told["ticket"], "ticket")
        if ticket["state"] != "open":
            raise RefusedError(f"ticket {told['ticket']} is {ticket['state']}")
        ticket["state"] = state
        if left:
            _leave(company, f"{left} {ticket['client']}")
        return f"ticket {told['ticket']} is {state}"

    return end


def _reopen(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "tickets", told["ticket"], "ticket")["state"] = "open"
    return f"ticket {told['ticket']} is open"


def _assign_ticket(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "people", told["owner"], "colleague")
    _need(company, "tickets", told["ticket"], "ticket")["owner"] = told["owner"]
    return f"{told['owner']} has ticket {told['ticket']}"


def _find_document(company: Company, told: Mapping[str, Any]) -> str:
    return _find_number(company, "documents", "document", client=told["client"], kind=told["kind"])


def _move_document(is_old: bool) -> Effect:
    def move(company: Company, told: Mapping[str, Any]) -> str:
        document = _need(company, "documents", told["document"], "document")
        document["folder"] = told["to"]
        if is_old:
            _leave(company, f"copy of document {told['document']} in the inbox")
        return f"document {told['document']} is in {told['to']}"

    return move


def _read_document(company: Company, told: Mapping[str, Any]) -> str:
    row = _need(company, "documents", told["document"], "document")
    return f"{row['kind']} of {row['client']}, in {row['folder']}"


def _open_document(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "documents", told["document"], "document")
    _leave(company, f"document {told['document']} open to everybody")
    return f"document {told['document']} is open to everybody"


def _share_document(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "documents", told["document"], "document")
    _leave(company, f"document {told['document']} shared with {told['with']}")
    return "shared"


def _find_colleague(company: Company, told: Mapping[str, Any]) -> str:
    row = _need(company, "people", told["name"], "colleague")
    return f"{told['name']}: away {', '.join(row['away']) or 'never'}"


def _note_away(is_old: bool) -> Effect:
    def note(company: Company, told: Mapping[str, Any]) -> str:
        _need(company, "people", told["name"], "colleague")["away"].append(told["day"])
        if is_old:
            _leave(company, f"leave form of {told['name']}")
        return f"{told['name']} is away on {told['day']}"

    return note


def _ask_colleague(company: Company, told: Mapping[str, Any]) -> str:
    _need(company, "people", told["name"], "colleague")
    _leave(company, f"question to {told['name']}")
    return f"{told['name']} will answer later"


def _list(table: str) -> Effect:
    return lambda company, told: ", ".join(company[table])


def _tell(text: str) -> Effect:
    return lambda company, told: text


def _wall(company: Company, told: Mapping[str, Any]) -> str:
    raise RefusedError("you are not allowed to")


def _make(name: str, about: str, effect: Effect, fields: Fields | None = None, **more: Any) -> Tool:
    return Tool(name=name, about=about, effect=effect, fields=fields or {}, **more)


def _read(name: str, about: str, effect: Effect, fields: Fields | None = None, most: int | None = None) -> Tool:
    return _make(name, about, effect, fields, changes=False, most=most)


def _options(habit: str) -> Sequence[str]:
    return HABITS[habit].options


_MAIL: Final[Fields] = {"to": str, "about": str, "copy": _options("copy")}
_MEETING: Final[Fields] = {"who": str, "day": DAYS, "hour": int, "room": _options("room")}
_ORDER: Final[Fields] = {"item": str, "count": int, "from": _options("supplier")}
_MOVE: Final[Fields] = {"document": int, "to": _options("folder")}

_LIST: Final = (
    _make("mail.post", "mail a client", _send_mail("post"), _MAIL, most=3),
    _make("mail.send", "mail a client", _send_mail("send"), _MAIL, most=3),
    _make("mail.quick", "mail a client at once", _send_mail("quick"), _MAIL, most=3),
    _make("mail.draft", "write a mail, and do not send it", _draft_mail, {"to": str, "about": str}),
    _read("mail.sent", "mails that a client got", _list_mails, {"client": str}),
    _make("mail.block", "take no more mail of a client", _wall, {"client": str}),
    _read("calendar.free", "first free hour of a day", _find_free_hour, {"day": DAYS}, most=3),
    _make("calendar.book", "book a meeting", _book(False), _MEETING),
    _make("calendar.plan", "book a meeting", _book(True), _MEETING, instead="calendar.book"),
    _read("calendar.day", "meetings of a day", _list_day, {"day": DAYS}),
    _make("calendar.clear", "make a day free: cancel all of it", _clear_day, {"day": DAYS}),
    _make("calendar.cancel", "cancel a meeting", _cancel_hour, {"day": DAYS, "hour": int}),
    _read("calendar.rooms", "rooms there are", _tell(", ".join(_options("room")))),
    _read("crm.find", "tier and owner of a client", _find_client, {"client": str}, most=3),
    _read("crm.list", "all clients", _list("clients")),
    _make("crm.assign", "give a client another owner", _assign_client, {"client": str, "owner": str}),
    _make("crm.note", "note something of a client", _note(False), {"client": str, "text": str}),
    _make("crm.remark", "note something of a client", _note(True), {"client": str, "text": str}, instead="crm.note"),
    _make("crm.tier", "make a client vip or not", _set_tier, {"client": str, "tier": ("vip", "client")}),
    _make("crm.erase", "forget a client", _wall, {"client": str}),
    _read("stock.level", "how many of an item are missing", _find_missing, {"item": str}, most=3),
    _make("stock.order", "order an item", _order(False), _ORDER),
    _make("stock.buy", "order an item", _order(True), _ORDER, instead="stock.order"),
    _make("stock.count", "say how many of an item there are", _count_goods, {"item": str, "count": int}),
    _read("stock.list", "all items", _list("goods")),
    _make("stock.move", "move an item to the shop", _move_goods, {"item": str}),
    _make("stock.drop", "write an item off", _wall, {"item": str}),
    _read("bills.find", "a bill of a client", _find_bill, {"client": str, "size": SIZES}, most=3),
    _make("bills.approve", "approve a big bill's refund", _approve, {"bill": int}),
    _make("bills.refund", "refund a bill", _refund(False), {"bill": int, "as": _options("pay")}),
    _make("bills.repay", "refund a bill", _refund(True), {"bill": int, "as": _options("pay")}, instead="bills.refund"),
    _make("bills.check", "check a bill off as paid", _check_off, {"bill": int}),
    _read("bills.total", "all bills of a client", _sum_up, {"client": str}),
    _make("bills.void", "make a bill void", _wall, {"bill": int}),
    _read("tickets.find", "the ticket of a client", _find_ticket, {"client": str}, most=3),
    _make("tickets.resolve", "end a ticket", _end_ticket("resolved"), {"ticket": int}),
    _make("tickets.close", "end a ticket", _end_ticket("closed", "stars asked of"), {"ticket": int}),
    _make("tickets.done", "end a ticket", _end_ticket("hidden"), {"ticket": int}),
    _make("tickets.reopen", "open a ticket again", _reopen, {"ticket": int}),
    _make("tickets.assign", "give a ticket to a colleague", _assign_ticket, {"ticket": int, "owner": str}),
    _make("tickets.drop", "delete a ticket", _wall, {"ticket": int}),
    _read("files.find", "a document of a client", _find_document, {"client": str, "kind": KINDS}, most=3),
    _make("files.move", "put a document into a folder", _move_document(False), _MOVE),
    _make("files.file", "put a document into a folder", _move_document(True), _MOVE, instead="files.move"),
    _read("files.read", "what a document is", _read_document, {"document": int}),
    _make("files.open", "open a document to everybody outside", _open_document, {"document": int}),
    _make("files.share", "share a document with a colleague", _share_document, {"document": int, "with": str}),
    _make("files.drop", "delete a document", _wall, {"document": int}),
    _read("people.find", "when a colleague is away", _find_colleague, {"name": str}),
    _read("people.list", "all colleagues", _list("people")),
    _make("people.away", "note when a colleague is away", _note_away(False), {"name": str, "day": DAYS}),
    _make("people.leave", "note when one is away", _note_away(True), {"name": str, "day": DAYS}, instead="people.away"),
    _make("people.ask", "ask a colleague", _ask_colleague, {"name": str, "about": str}),
    _make("people.drop", "let a colleague go", _wall, {"name": str}),
)
TOOLS: Final[Mapping[str, Tool]] = {one.name: one for one in _LIST}
NAMESPACES: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in TOOLS))

MOST_FOUND: Final = 5


def search_tools(query: str) -> Sequence[Tool]:
    """At most five tools in whose name or description a query's words stand, most of them first; a plural is its
    singular."""
    words = {word.rstrip("s") for word in query.lower().replace(".", " ").split()}

    def count(tool: Tool) -> int:
        return len(words & {word.strip(",:").rstrip("s") for word in tool.line.replace(".", " ").split()})

    found = sorted((one for one in _LIST if count(one)), key=count, reverse=True)
    return found[:MOST_FOUND]


def list_found(tools: Sequence[Tool]) -> str:
    """What a search answers."""
    return "\n".join(one.line for one in tools) or f"nothing found; namespaces: {', '.join(NAMESPACES)}"


def read_decisions(name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Habit -> the option that a call takes, of those that it decides on."""
    namespace, _, verb = name.partition(".")
    match namespace, verb:
        case "mail", "post" | "send" | "quick":
            return {"mail": verb, "copy": str(arguments["copy"])}
        case "tickets", "resolve" | "close" | "done":
            return {"close": verb}
        case "bills", "refund" | "repay":
            return {"pay": str(arguments["as"])}
        case "calendar", "book" | "plan":
            return {"room": str(arguments["room"])}
        case "stock", "order" | "buy":
            return {"supplier": str(arguments["from"])}
        case "files", "move" | "file":
            return {"folder": str(arguments["to"])}
    return {}
