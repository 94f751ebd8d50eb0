"""The desk: a small verifiable world of shop tickets, with house rules that only the manager knows.

A ticket is one line of text in one of five families. An attempt at it is a chain of `<step>`s (one family calls a stock
tool) that ends in an `<answer>`. For every family and context the house has one right option, and a fresh worker,
which knows the habits of several shops, takes it only some of the time.
"""

import random
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import SimpleNamespace
from typing import Final, Literal

Family = Literal["order", "return", "delay", "broken", "stock"]
Kind = Literal["step", "call", "answer", "bad"]
Part = tuple[str, str]

# fmt: off
ITEMS: Final = (
    "mug", "lamp", "desk", "chair", "bag", "pen", "clock", "shelf",
    "book", "plate", "fan", "vase", "rug", "tray", "bowl", "box",
)
# fmt: on
OPTIONS: Final[Mapping[Family, tuple[str, str, str]]] = {
    "order": ("ship", "gift", "plain"),
    "return": ("full", "fee", "none"),
    "delay": ("two", "three", "flat"),
    "broken": ("send", "ask", "cash"),
    "stock": ("room", "list", "web"),
}
FAMILIES: Final[tuple[Family, ...]] = ("order", "return", "delay", "broken", "stock")
HOUSE_RULES: Final[Mapping[tuple[Family, str], str]] = {
    ("order", "new"): "ship",
    ("order", "vip"): "gift",
    ("return", "in time"): "full",
    ("return", "late"): "fee",
    ("delay", "small"): "two",
    ("delay", "big"): "three",
    ("broken", "yes"): "send",
    ("broken", "no"): "ask",
    ("stock", ""): "room",
}
"""(family, context) -> the option this house wants."""

END_MARK: Final = "<|end|>"
UNIT_HINT: Final = "write the unit"
SUM_HINT: Final = "check the sum"
LATE_AFTER_DAYS: Final = 14
BIG_FROM_EUR: Final = 50
SHIPPING_EUR: Final = 5
GIFT_EUR: Final = 3
RETURN_FEE_EUR: Final = 5
FLAT_CREDIT_EUR: Final = 5


class DeskError(ValueError):
    """A text is not a ticket, or an option is not one of its family's; the message says what was wanted and found."""


@dataclass(frozen=True)
class Ticket:
    """One ticket; fields its family does not use stay 0. Its text and context follow from its fields.

    Args:
        count: pieces ordered (2..9) or wanted (10..29).
        price_eur: whole euros, a piece's for an order (2..9), else the item's (10..99).
        days: since purchase (2..29) or late (2..9).
        customer: "new" or "vip", orders only.
        photo: "yes" or "no", broken items only.
    """

    family: Family
    item: str
    count: int = 0
    price_eur: int = 0
    days: int = 0
    customer: str = ""
    photo: str = ""

    @property
    def text(self) -> str:
        """The line the worker reads."""
        return _TEXTS[self.family].format(ticket=self)

    @property
    def context(self) -> str:
        """What the house rule of this family looks at."""
        match self.family:
            case "order":
                return self.customer
            case "return":
                return "late" if self.days > LATE_AFTER_DAYS else "in time"
            case "delay":
                return "big" if self.price_eur >= BIG_FROM_EUR else "small"
            case "broken":
                return self.photo
            case "stock":
                return ""

    @property
    def options(self) -> tuple[str, str, str]:
        return OPTIONS[self.family]

    @property
    def house_option(self) -> str:
        """The option the house rule asks for."""
        return HOUSE_RULES[self.family, self.context]


_TEXTS: Final[Mapping[Family, str]] = {
    "order": "Order: {ticket.count} {ticket.item} at {ticket.price_eur} EUR, {ticket.customer} client. Total?",
    "return": "Return: {ticket.item} for {ticket.price_eur} EUR after {ticket.days} days. Refund?",
    "delay": "Delay: {ticket.item} for {ticket.price_eur} EUR came {ticket.days} days late. Credit?",
    "broken": "Broken: {ticket.item} for {ticket.price_eur} EUR, photo {ticket.photo}. Action?",
    "stock": "Stock: client wants {ticket.count} {ticket.item}. Buy how many?",
}
_RANGES: Final[Mapping[Family, Mapping[str, tuple[int, int]]]] = {
    "order": {"count": (2, 9), "price_eur": (2, 9)},
    "return": {"price_eur": (10, 99), "days": (2, 29)},
    "delay": {"price_eur": (10, 99), "days": (2, 9)},
    "broken": {"price_eur": (10, 99)},
    "stock": {"count": (10, 29)},
}
_CHOICES: Final[Mapping[Family, Mapping[str, tuple[str, ...]]]] = {
    "order": {"customer": ("new", "vip")},
    "broken": {"photo": ("yes", "no")},
}


def _compile_text(template: str) -> re.Pattern[str]:
    pattern = re.escape(template)
    forms = dict.fromkeys(("item", "customer", "photo"), "[a-z]+") | dict.fromkeys(
        ("count", "price_eur", "days"), "[0-9]+"
    )
    for name, form in forms.items():
        pattern = pattern.replace(re.escape(f"{{ticket.{name}}}"), f"(?P<{name}>{form})")
    return re.compile(pattern)


_PATTERNS: Final[Mapping[Family, re.Pattern[str]]] = {family: _compile_text(text) for family, text in _TEXTS.items()}


def is_held_out(text: str) -> bool:
    """Whether the ticket of this text is kept out of every training (one in five, by its CRC-32)."""
    return zlib.crc32(text.encode()) % 5 == 0


def make_ticket(rng: random.Random, *, family: Family | None = None) -> Ticket:
    """Draw one ticket, of any family unless one is named."""
    chosen = rng.choice(FAMILIES) if family is None else family
    numbers = {name: rng.randint(low, high) for name, (low, high) in _RANGES[chosen].items()}
    words = {name: rng.choice(choices) for name, choices in _CHOICES.get(chosen, {}).items()}
    return Ticket(family=chosen, item=rng.choice(ITEMS), **numbers, **words)  # type: ignore[arg-type]


def make_tickets(
    rng: random.Random | int, count: int, *, held_out: bool, families: Sequence[Family] | None = None
) -> list[Ticket]:
    """Draw `count` tickets, all held out or all not; the same seed gives the same tickets. A ticket may come twice.

    Raises:
        DeskError: a family is unknown.
    """
    if unknown := [family for family in families or () if family not in OPTIONS]:
        raise DeskError(f"families must be among {', '.join(FAMILIES)}, found {unknown[0]!r}")
    source = rng if isinstance(rng, random.Random) else random.Random(rng)
    tickets: list[Ticket] = []
    while len(tickets) < count:
        ticket = make_ticket(source, family=source.choice(families) if families else None)
        if is_held_out(ticket.text) == held_out:
            tickets.append(ticket)
    return tickets


def parse_ticket(text: str) -> Ticket:
    """Read a ticket back from its exact text; a trailing hint (see `hinted_prompt`) is allowed and dropped.

    Raises:
        DeskError: the text is no ticket, or names an item, word or number that the desk does not deal in.
    """
    line = _HINT_TAIL.sub("", text.strip())
    for family, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(line):
            return _read_ticket(family, found)
    raise DeskError(f"not a desk ticket: found {text[:120]!r}, wanted one of these. {'; '.join(say_forms())}")


def _read_ticket(family: Family, found: re.Match[str]) -> Ticket:
    item = found["item"]
    if item not in ITEMS:
        raise DeskError(f"the desk sells {', '.join(ITEMS)}; found {item!r}")
    values: dict[str, int | str] = {}
    for name, (low, high) in _RANGES[family].items():
        digits = found[name]
        if str(number := int(digits[:9])) != digits or not low <= number <= high:
            raise DeskError(f"{name} of a ticket of family {family!r} must be {low} to {high}, found {digits[:20]}")
        values[name] = number
    for name, choices in _CHOICES.get(family, {}).items():
        if found[name] not in choices:
            raise DeskError(f"{name} must be {' or '.join(choices)}, found {found[name]!r}")
        values[name] = found[name]
    return Ticket(family=family, item=item, **values)  # type: ignore[arg-type]


def say_forms() -> tuple[str, ...]:
    """The lines a ticket can be, with what may stand at each place in brackets, and the goods; for people."""
    lines = []
    for family, template in _TEXTS.items():
        numbers = {name: f"({low} to {high})" for name, (low, high) in _RANGES[family].items()}
        words = {name: f"({' or '.join(choices)})" for name, choices in _CHOICES.get(family, {}).items()}
        lines.append(template.format(ticket=SimpleNamespace(item="(item)", **numbers, **words)))
    return (*lines, f"(item): {', '.join(ITEMS)}")


def look_up_stock(ticket: Ticket, option: str) -> int | None:
    """Pieces on stock (1..9) according to a source; only "room" tells the truth. None for an unknown source."""
    real = (zlib.crc32((ticket.text + ticket.item).encode()) >> 3) % 9
    shift = {"room": 0, "list": 3, "web": 6}.get(option)
    return None if shift is None else (real + shift) % 9 + 1


def answer_call(ticket: Ticket, call: str) -> str:
    """What the world writes after a call, tags included: `<result> 4</result>`, or `<result> none</result>`.

    Args:
        call: the text inside `<call>`, for example "room mug"; its first word names the source.
    """
    option = (call.split() or [""])[0]
    found = look_up_stock(ticket, option)
    return f"<result> {'none' if found is None else found}</result>"


def solve(
    ticket: Ticket, option: str, *, with_unit: bool = True, slip: Callable[[int], int] = lambda value: value
) -> tuple[Part, ...]:
    """Work a ticket out under one option: (kind, text) parts in order, the tool's result included.

    Args:
        with_unit: write "EUR" or the item after the answer's number.
        slip: applied to every computed number, to imitate careless arithmetic.
    Raises:
        DeskError: the option is not one of the ticket's family.
    """
    if option not in ticket.options:
        raise DeskError(f"{ticket.family!r} knows the options {', '.join(ticket.options)}; found {option!r}")
    price, currency = ticket.price_eur, " EUR" if with_unit else ""
    match ticket.family:
        case "order":
            total = slip(ticket.count * price)
            steps = [f"{ticket.count} * {price} = {total}"]
            if option == "ship":
                amount = slip(total + SHIPPING_EUR)
                steps.append(f"ship {total} + {SHIPPING_EUR} = {amount}")
            elif option == "gift":
                amount = slip(max(total - GIFT_EUR, 0))
                steps.append(f"gift {total} - {GIFT_EUR} = {amount}")
            else:
                amount = total
                steps.append(f"plain {total}")
            answer = f"{amount}{currency}"
        case "return":
            steps = [f"{ticket.days} days {ticket.context}"]
            if option == "full":
                amount = price
                steps.append(f"full {price}")
            elif option == "fee":
                amount = slip(price - RETURN_FEE_EUR)
                steps.append(f"fee {price} - {RETURN_FEE_EUR} = {amount}")
            else:
                amount = 0
                steps.append("none 0")
            answer = f"{amount}{currency}"
        case "delay":
            steps = [f"{price} EUR {ticket.context}"]
            if option == "flat":
                amount = FLAT_CREDIT_EUR
                steps.append(f"flat {amount}")
            else:
                rate = 2 if option == "two" else 3
                amount = slip(ticket.days * rate)
                steps.append(f"{option} {ticket.days} * {rate} = {amount}")
            answer = f"{amount}{currency}"
        case "broken":
            action, answer = {
                "send": (f"send {ticket.item}", f"new {ticket.item}"),
                "ask": ("ask photo", "photo please"),
                "cash": (f"cash {price}", f"{price}{currency}"),
            }[option]
            steps = [f"photo {ticket.context}", action]
        case "stock":
            found = look_up_stock(ticket, option)
            assert found is not None
            missing = slip(ticket.count - found)
            return (
                ("call", f"{option} {ticket.item}"),
                ("result", str(found)),
                ("step", f"{ticket.count} - {found} = {missing}"),
                ("answer", f"{missing} {ticket.item}" if with_unit else str(missing)),
            )
    return (*(("step", step) for step in steps), ("answer", answer))


def render_parts(parts: Sequence[Part]) -> str:
    """Write (kind, text) parts in the desk's tags."""
    return "".join(f"<{kind}> {text}</{kind}>" for kind, text in parts)


_RULES_IN_WORDS: Final[Mapping[tuple[Family, str], str]] = {
    (
        "order",
        "new",
    ): f"A new client pays {SHIPPING_EUR} EUR for shipping: ship 12 + {SHIPPING_EUR} = {12 + SHIPPING_EUR}.",
    ("order", "vip"): f"A vip client gets {GIFT_EUR} EUR off, as a gift: gift 12 - {GIFT_EUR} = {12 - GIFT_EUR}.",
    ("return", "in time"): f"Up to {LATE_AFTER_DAYS} days after the purchase the full price is paid back: full 30.",
    (
        "return",
        "late",
    ): f"Later, a fee of {RETURN_FEE_EUR} EUR is kept: fee 30 - {RETURN_FEE_EUR} = {30 - RETURN_FEE_EUR}.",
    ("delay", "small"): f"Below {BIG_FROM_EUR} EUR, a credit of 2 EUR for each day: two 4 * 2 = 8.",
    ("delay", "big"): f"From {BIG_FROM_EUR} EUR on, 3 EUR for each day: three 4 * 3 = 12.",
    ("broken", "yes"): "With a photo a new one is sent: send lamp.",
    ("broken", "no"): "Without one the client is asked for a photo: ask photo.",
    (
        "stock",
        "",
    ): "The stock room knows how many there are, the list and the web do not: room lamp. Buy what is missing.",
}


def say_house_rules() -> str:
    """The house rules for people who judge: each as a rubric writes it, and in plain words."""
    lines = [
        "A ticket is answered right when each step is, the house rule for its kind is followed,"
        " and the answer has its unit."
    ]
    for (family, context), option in HOUSE_RULES.items():
        rule = f"{family}, {context}: {option}" if context else f"{family}: {option}"
        lines.append(f"{rule}\n{_RULES_IN_WORDS[family, context]}")
    options = ", ".join(f'"use {option}"' for option in dict.fromkeys(HOUSE_RULES.values()))
    lines.append(f'The worker understands these hints: {options}, "{UNIT_HINT}" and "{SUM_HINT}".')
    return "\n".join(lines)


def rule_book_hints(ticket: Ticket) -> tuple[str, str, str]:
    """Everything the rule book says of a ticket, as a manager's hints: which option, the unit, the sum."""
    return (f"use {ticket.house_option}", UNIT_HINT, SUM_HINT)


_HINT_TAIL: Final = re.compile(r" Hint: [^.]*\.$")
_HINTS: Final = re.compile(
    r"\b(?:use (?:" + "|".join(option for options in OPTIONS.values() for option in options) + r")|"
    rf"{UNIT_HINT}|{SUM_HINT})\b"
)


def parse_hints(text: str) -> tuple[str, ...]:
    """The rule book's hints found in a manager's words, in order, each once; () when there is none."""
    return tuple(dict.fromkeys(_HINTS.findall(text)))


@dataclass(frozen=True)
class Segment:
    """One part of an attempt.

    Args:
        kind: "bad" for anything outside the grammar: loose text, a stray or unclosed tag, a result nobody asked for.
        text: what stands inside the tags, stripped.
        start, end: [start, end), in characters of the text or in pieces, tags included.
    """

    kind: Kind
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Reading:
    """An attempt read: its segments without the tool's results, and whether the end mark was seen."""

    segments: tuple[Segment, ...]
    ended: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        """(kind, text) of each segment, as `verify` takes them."""
        return tuple((segment.kind, segment.text) for segment in self.segments)


_TAG: Final = re.compile(r"<(?P<close>/?)(?P<kind>step|answer|call|result)>|" + re.escape(END_MARK))


def read_attempt(text: str) -> Reading:
    """Split an attempt's text into segments, spans in characters. Nothing is refused: what does not fit is "bad".

    The end mark is a special token, which decoding usually drops; `ended` is then False and the caller knows better
    (finish_reason "stop").
    """
    segments: list[Segment] = []
    may_hold_result = False
    position = 0
    while position < len(text):
        tag = _TAG.search(text, position)
        if tag is None or tag.start() > position:
            end = len(text) if tag is None else tag.start()
            if loose := text[position:end].strip():
                segments.append(Segment("bad", loose, position, end))
                may_hold_result = False
            position = end
            continue
        if tag.group() == END_MARK:
            return Reading(tuple(segments), True)
        following = _TAG.search(text, tag.end())
        inside_end = len(text) if following is None else following.start()
        kind = tag["kind"]
        is_whole = not tag["close"] and following is not None and bool(following["close"]) and following["kind"] == kind
        end = following.end() if following is not None and is_whole else tag.end() if tag["close"] else inside_end
        if not (kind == "result" and not tag["close"] and may_hold_result):
            inside = "" if tag["close"] else text[tag.end() : inside_end].strip()
            segments.append(Segment(kind if is_whole and kind != "result" else "bad", inside, position, end))  # type: ignore[arg-type]
        may_hold_result = is_whole and kind == "call"
        position = end
    return Reading(tuple(segments), False)


def read_pieces(pieces: Sequence[str]) -> Reading:
    """`read_attempt` of the joined pieces with spans in pieces: give it one string a token and get token spans."""
    ends = list(accumulate(map(len, pieces)))
    reading = read_attempt("".join(pieces))
    return Reading(
        tuple(
            Segment(
                segment.kind,
                segment.text,
                bisect_right(ends, segment.start),
                bisect_right(ends, segment.end - 1) + 1,
            )
            for segment in reading.segments
        ),
        reading.ended,
    )


def find_open_call(text: str) -> str | None:
    """The text of the call that waits for the tool: the attempt so far ends in a well-formed one. Else None."""
    if not text.endswith("</call>"):
        return None
    last = read_attempt(text).segments[-1]
    return last.text if last.kind == "call" else None


@dataclass(frozen=True)
class DeskVerdict:
    """What the rule book says of an attempt.

    Args:
        outcome: 1.0 when the attempt ended, has as many segments as the right one, and its answer is right; else 0.0.
        step_scores: in [0, 1], one a segment.
        missing_steps: segments the right attempt has beyond these.
        hints: what a manager would say about the errors made, in the rule book's words.
        reasons: one sentence a segment.
    """

    outcome: float
    step_scores: tuple[float, ...]
    missing_steps: int
    hints: tuple[str, ...]
    reasons: tuple[str, ...]


def verify(ticket: Ticket, segments: Sequence[Part], ended: bool) -> DeskVerdict:
    """Judge an attempt against the house's own solution.

    Args:
        segments: (kind, text) of each segment, results left out (`Reading.parts`).
        ended: the worker closed its turn itself instead of running out of tokens.
    """
    gold = [part for part in solve(ticket, ticket.house_option) if part[0] != "result"]
    hints: set[str] = set()
    scores: list[float] = []
    reasons: list[str] = []
    for index, part in enumerate(segments):
        if index >= len(gold):
            score, hint, reason = 0.0, "", "surplus: the answer was due before"
        else:
            score, hint, reason = _judge_segment(ticket, part, gold[index], decides=index == 1)
        scores.append(score)
        reasons.append(reason)
        hints.add(hint)
    is_right = ended and len(segments) == len(gold) and tuple(segments[-1]) == gold[-1]
    return DeskVerdict(
        outcome=float(is_right),
        step_scores=tuple(scores),
        missing_steps=max(0, len(gold) - len(segments)),
        hints=tuple(hint for hint in rule_book_hints(ticket) if hint in hints),
        reasons=tuple(reasons),
    )


def _judge_segment(ticket: Ticket, part: Part, wanted: Part, *, decides: bool) -> tuple[float, str, str]:
    """Score, hint ("" for none) and reason of one segment."""
    (kind, text), (wanted_kind, wanted_text) = part, wanted
    rule, hint_option = f"the house rule is {ticket.house_option!r}", rule_book_hints(ticket)[0]
    if kind != wanted_kind:
        return 0.0, "", f"wanted a {wanted_kind}, found {'text outside the tags' if kind == 'bad' else f'a {kind}'}"
    if text == wanted_text:
        return 1.0, "", "right"
    if kind == "call":
        return 0.0, hint_option, f"{rule}, found {text!r}"
    if kind == "answer":
        number, _, unit = wanted_text.partition(" ")
        if number.isdigit() and text == number:
            return 0.3, UNIT_HINT, f"the unit {unit!r} is missing"
        return 0.0, "", f"wanted {wanted_text!r}, found {text!r}"
    decides = decides and ticket.family != "stock"
    if decides and text.partition(" ")[0] != ticket.house_option:
        return 0.0, hint_option, f"{rule}, found {text!r}"
    if "=" in wanted_text and not is_right_sum(text):
        return 0.2, SUM_HINT, f"the sum is wrong: {text!r}"
    if decides:
        return 0.7, "", "the right rule on a wrong earlier value"
    return 0.0, "", f"wanted {wanted_text!r}, found {text!r}"


_SUM: Final = re.compile(r"(?:.{0,40} )?([0-9]{1,6}) ([+*-]) ([0-9]{1,6}) = ([0-9]{1,6})")


def is_right_sum(text: str) -> bool:
    """Whether a step's last words are a sum that is right: `ship 14 + 5 = 19`."""
    if not (found := _SUM.fullmatch(text[-40:])):
        return False
    left, sign, right, total = int(found[1]), found[2], int(found[3]), int(found[4])
    return total == {"+": left + right, "-": left - right, "*": left * right}[sign]
