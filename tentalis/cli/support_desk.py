"""The tickets of a small shop's support desk, made up by seed, and the rules that its manager holds replies to.

Sixteen letters with places for a name, an order, an item, a price and its postage. The last letter of each kind of
trouble is held out with all that is written by it, so that what is measured is no sentence that was learnt from. What
is paid back depends on the trouble, and by when on the ticket's date: both stand in no letter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from random import Random
from typing import Any, Final

SEED: Final = 1
TICKETS_A_LETTER: Final = 28
ANSWER_TOKENS: Final = 80
ANSWER_WITHIN: Final = timedelta(days=5)
ENDING: Final = "With sea air, your Quayside desk."
NAMES: Final = """
Jana Tomas Ines Pavel Nora Karl Mira Otto Lena Hugo Petra Emil Rosa Anton Vera Jonas Clara Felix Greta Oskar Irma Ruben
Selma Arne Dora Ivo Marta Nils
"""
ITEMS: Final = """
desk lamp, tea kettle, wool blanket, bread knife, picture frame, garden chair, wall clock, rain jacket, coffee grinder,
book shelf, door mat, bath towel, hand mirror, flower pot, travel bag, cutting board, reading light, oil heater,
pepper mill, shoe rack
"""
MONTHS: Final = "January February March April May June July August September October November December"
LETTERS: Final[Mapping[str, str]] = {
    "broken": """
Good morning, my {item} arrived with a deep crack in it. I paid {price} euros and {postage} euros postage for
order {order}. I cannot use it like this. {customer}

Hello, this is {customer}. I opened parcel {order} today and found the {item} in two pieces. It had cost me
{price} euros, and sending it another {postage} euros. What happens next?

The {item} from order {order} stopped working after one evening! {price} euros plus {postage} for the parcel,
and now it just stands there. Please tell me what you will do. Best, {customer}

To whom it may concern: a corner is missing from the {item} you sent under {order} ({price} euros, parcel fee
{postage} euros). I kept the box and took pictures. Yours, {customer}
""",
    "wrong": """
Hi, I ordered a {item} and got something else altogether. Number {order}, price {price} euros, postage
{postage} euros. Could you look into it? Thanks, {customer}

My name is {customer} and in my parcel was the {item} of another family, with their name on it. My own order
is {order}; I paid {price} euros and {postage} euros for sending.

Dear shop, the {item} is blue, and the one in the picture was red. I would not have paid {price} euros and
{postage} euros postage for a blue one. It was order {order}. Regards from {customer}

This cannot be right: the label says {order} and {item}, the thing inside is much too small to be one. Bill:
{price} euros for it, {postage} euros for the courier. Who do I talk to? {customer}
""",
    "late": """
I have been waiting for two weeks now. Order {order}, a {item} for {price} euros, postage {postage} euros. It
was meant as a present. Where is it? {customer}

Hello again, {customer} here. Nobody at the post office knows anything about {order}. The {item} was {price}
euros with {postage} euros for fast delivery, and fast it is not.

My {item} came today, nine days after you said. I am keeping it, but order {order} cost {price} euros and
{postage} euros more to be here on time. Not happy, {customer}

Your page has shown {order} as leaving the warehouse since Monday. That is the {item}, {price} euros, delivery
{postage} euros. We are moving house soon and nobody will be in. Greetings, {customer}
""",
    "twice": """
Funny thing: the {item} came twice, and my bank says that I paid {price} euros twice too, with {postage} euros
postage once. Order {order}. Which one do I send back? {customer}

Please check your books. {order} was charged two times. One {item}, {price} euros, and {postage} euros for the
parcel, that is all I wanted. Kind regards, {customer}

I pressed the button once and own two of them now. {customer} is my name, {order} the order, and the {item}
costs {price} euros, with {postage} euros for sending both together.

There must be a mistake on my card statement for {order}: {price} euros on Tuesday and the same amount on
Thursday, postage {postage} euros. I have a single {item} at home. Can you help? {customer}
""",
}
"""Trouble -> letters about it, with an empty line between; the last is held out."""
REFUNDS: Final[Mapping[str, Any]] = {
    "broken": lambda price, postage: price + postage,
    "wrong": lambda price, postage: price + postage,
    "late": lambda price, postage: postage,
    "twice": lambda price, postage: price,
}
"""Trouble -> euros that are paid back, of a price and its postage."""


@dataclass(frozen=True)
class Ticket:
    """A letter, and what a right reply to it says.

    Args:
        refund: euros. by: day and month until when the shop has answered for good.
    """

    prompt: str
    is_held_out: bool
    customer: str
    order: str
    item: str
    refund: int
    by: str

    @property
    def facts(self) -> dict[str, Any]:
        told = asdict(self)
        return {name: told[name] for name in ("customer", "order", "item", "refund", "by")}

    def write_right_reply(self) -> str:
        """As the manager would write it."""
        return (
            f"Dear {self.customer}, we are sorry about the {self.item} of order {self.order}. You get {self.refund} "
            f"euros back, and all of it is settled by {self.by}. {ENDING}"
        )


def make_tickets(*, seed: int = SEED, a_letter: int = TICKETS_A_LETTER) -> Iterator[Ticket]:
    """Tickets in the order they come in, the same for the same seed.

    Args:
        a_letter: tickets by each of the letters.
    """
    drawn, letters = Random(seed), list(_read_letters()) * a_letter
    names, items = NAMES.split(), [" ".join(item.split()) for item in ITEMS.split(",")]
    drawn.shuffle(letters)
    orders = drawn.sample(range(1_000, 10_000), len(letters))
    for (trouble, letter, is_held_out), number in zip(letters, orders, strict=True):
        customer, item, order = drawn.choice(names), drawn.choice(items), f"Q-{number}"
        price, postage = drawn.randint(11, 89), drawn.randint(3, 7)
        came = date(2026, 1, 1) + timedelta(days=drawn.randrange(360))
        text = letter.format(customer=customer, item=item, order=order, price=price, postage=postage)
        yield Ticket(
            prompt=f"Ticket of {say_day(came)}\n{text}\n\nReply:",
            is_held_out=is_held_out,
            customer=customer,
            order=order,
            item=item,
            refund=REFUNDS[trouble](price, postage),
            by=say_day(came + ANSWER_WITHIN),
        )


def _read_letters() -> Iterator[tuple[str, str, bool]]:
    """(trouble, letter, whether it is held out)."""
    for trouble, text in LETTERS.items():
        told = [" ".join(letter.split()) for letter in text.split("\n\n")]
        yield from ((trouble, letter, letter == told[-1]) for letter in told)


def say_day(day: date) -> str:
    """Day and month in English, such as 3 May, whatever the machine's language."""
    return f"{day.day} {MONTHS.split()[day.month - 1]}"


RULES: Final = (
    ("names-ticket", "The reply names the customer, the order and the item.",
     {"all": [{"check": "contains", "value": {"fact": name}} for name in ("customer", "order", "item")]}),
    ("no-promises", "The reply promises nothing that the shop does not know.",
     {"check": "forbidden", "words": ["guarantee", "guaranteed", "promise", "immediately", "as soon as possible"]}),
    ("right-refund", "The reply says what is paid back, to the euro.",
     {"check": "regex", "pattern": {"fact": r"(?i)\b{refund} euros?\b"}}),
    ("right-day", "The reply says by when: five days after the ticket.",
     {"check": "regex", "pattern": {"fact": r"\b{by}\b"}}),
    ("house-ending", "The reply ends as ours do.",
     {"check": "regex", "pattern": r"With sea air, your Quayside desk\.\s*$"}),
    ("right-length", "The reply is neither curt nor long.",
     {"check": "length", "unit": "words", "min": 20, "max": 60}),
)  # fmt: skip
"""Name, what it is for, and the check of each rule."""
EXAMPLE: Final = """Tickets of a shop, with its replies.

Ticket of 2 February
Hello, my soup bowl came with a broken rim. Order Q-4711, 20 euros and 4 euros postage. Wanda

Reply: Dear Wanda, thank you for your message about the soup bowl of order Q-4711. We will look into it.
"""
"""Goes before every ticket, so that a model that only continues texts writes a reply. It tells none of the rules."""


def write_support_desk(*, seed: int = SEED) -> dict[str, Any]:
    """The project as `tentalis project new` takes it: settings, checks, worker and tickets."""
    house = {"weighted": [[1, {"use": name}] for name, _, _ in RULES]}
    checks = [{"name": name, "about": about, "spec": spec} for name, about, spec in RULES]
    rows = [
        {
            "prompt": ticket.prompt,
            "split": "held_out" if ticket.is_held_out else "train",
            "checks": {"use": "house"},
            "metadata": ticket.facts,
        }
        for ticket in make_tickets(seed=seed)
    ]
    return {
        "environment": "chat",
        "project": {
            "name": "Support desk",
            "batch_tasks": 8,
            "recipe": {"learning_rate": 2e-4, "lora_rank": 16, "lora_alpha": 32.0, "answer_tokens": ANSWER_TOKENS},
            "gate_policy": {
                "length_drift": 1.0,
                "panel_size": len(LETTERS) * TICKETS_A_LETTER,
            },  # each once: tries cost seconds
        },
        "checks": [
            *checks,
            {"name": "house", "about": "All rules, one part each.", "spec": house, "default_for": "chat"},
        ],
        "taskset": {"name": "tickets", "about": "Held out by letter, not by ticket."},
        "worker": {
            "name": "desk",
            "kind": "chat",
            "system_prompt": EXAMPLE,
            "sampling": {"temperature": 1.0, "max_tokens": ANSWER_TOKENS},
        },
        "rows": rows,
    }
