"""The tickets of a small shop's support desk, made up by seed, and the rules that its manager holds replies to.

A letter is an opening, a sentence that tells of a trouble, a bill and a closing, with places for a name, an order, an
item, a price and its postage. The last sentences about each kind of trouble are held out with all that is written by
them, so that what is measured is no sentence that was learnt from. What is paid back depends on the trouble, and by
when on the ticket's date: both stand in no letter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from random import Random
from typing import Any, Final

SEED: Final = 1
TICKETS_A_SENTENCE: Final = 10
HELD_OUT_SENTENCES: Final = 2
SHOWN: Final = 320
"""Tickets to train on whose replies the manager had written already."""
STYLE_NATS: Final = 3.0
"""By so many nats a token the manager's own replies may be less likely than what a base model writes."""
ANSWER_TOKENS: Final = 80
ANSWER_WITHIN: Final = timedelta(days=1)
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
OPENINGS: Final = """
Good morning,
Hello, this is {customer}.
Hi there,
To whom it may concern:
Dear shop,
{customer} writes to you again.
My name is {customer}.
Good evening, a word about my last parcel.
"""
TROUBLES: Final[Mapping[str, str]] = {
    "broken": """
My {item} arrived with a deep crack in it.
I found the {item} in two pieces when I opened the parcel.
The {item} stopped working after one evening.
A corner is missing from the {item} that you sent me.
The {item} is broken at the bottom, and nothing holds in it any more.
One side of the {item} is dented, so I cannot use it like this.
The {item} worked on Friday, and on Sunday it was dead.
Glass fell out of the box, and that was the {item}.
The {item} has a hole that was not in the picture.
When I touched the {item} for the first time, it fell apart.
The {item} came damaged.
Something inside the {item} rattles, and it does not do anything.
""",
    "wrong": """
I ordered a {item} and got something else altogether.
In my parcel was the {item} of another family, with their name on it.
The {item} is blue, and the one in the picture was red.
The label says {item}, but the thing inside is much too small to be one.
Instead of a {item} you sent me something that I never asked for.
Somebody must have mixed up two boxes, for there is no {item} in mine.
The {item} that I chose was large and green, and this one is small and grey.
I wanted a {item} and hold another thing in my hands.
This is not the {item} that I picked on your page.
You packed the wrong article, not my {item}.
The {item} that came is of another kind than the one I paid for.
What I unpacked is no {item} at all.
""",
    "late": """
I have been waiting for my {item} for two weeks now.
Nobody at the post office knows anything about the {item} that I wait for.
My {item} came today, nine days after you said, and I am keeping it.
Your page has shown the {item} as leaving the warehouse since Monday.
Ten days, and still no parcel with the {item}.
My guests left yesterday, and the {item} that I wanted to show them arrived today.
The {item} should have been here last week, and I still want it.
The postman says that he has not seen my {item} yet.
The {item} took far longer than you had said.
It was meant as a present, and the {item} came after the party.
When does the {item} get here? The day that you told me has passed.
The parcel with the {item} is overdue.
""",
    "twice": """
The {item} came twice, and my bank says that I paid for it twice too.
I was charged two times for one {item}.
I pressed the button once and own two of the {item} now.
On my card statement the {item} stands on Tuesday and again on Thursday.
Two parcels lie here with the same {item} in each, and I need only one.
My account shows the price of the {item}, and then the same price again.
You billed the {item} double.
Your system counted my {item} two times, and so did my bank.
There are two payments for a single {item}.
I paid for the {item} on Monday, and you took the money once more a day later.
I find the same {item} on two bills.
I bought one {item}, and you charged me for a pair.
""",
}
"""Trouble -> sentences that tell of it; the last two are held out."""
BILLS: Final = """
Order {order}, {price} euros and {postage} euros postage.
It was order {order}; I paid {price} euros and {postage} euros for sending.
The number is {order}. Price {price} euros, parcel fee {postage} euros.
See {order}: {price} euros, and the postage was {postage} euros.
I had paid {price} euros, and {postage} euros for the post, under {order}.
My receipt for {order} says {price} euros, and {postage} euros for the parcel.
{order}, {price} euros plus {postage} euros for the courier.
It cost me {price} euros, with {postage} euros delivery. The order was {order}.
"""
CLOSINGS: Final = """
What happens next? {customer}
Could you look into it? Thanks, {customer}
Please tell me what you will do. Best, {customer}
Kind regards, {customer}
I hope to hear from you. Yours, {customer}
Greetings, {customer}
Not happy, {customer}
Thank you, {customer}
"""
REFUNDS: Final[Mapping[str, Any]] = {
    "broken": lambda price, postage: price + postage,
    "wrong": lambda price, postage: price + postage,
    "late": lambda price, postage: postage,
    "twice": lambda price, postage: price,
}
"""Trouble -> euros that are paid back, of a price and its postage."""

SORRY: Final[Mapping[str, str]] = {
    "broken": "came broken",
    "wrong": "was the wrong one",
    "late": "came late",
    "twice": "was billed twice",
}
"""Trouble -> what the manager's own replies call it."""


@dataclass(frozen=True)
class Ticket:
    """A letter, and what a right reply to it says.

    Args:
        trouble: one of `TROUBLES`. price, postage, refund: euros.
        by: day and month until when the shop has answered for good.
    """

    prompt: str
    is_held_out: bool
    trouble: str
    customer: str
    order: str
    item: str
    price: int
    postage: int
    refund: int
    by: str

    @property
    def facts(self) -> dict[str, Any]:
        told = asdict(self)
        return {name: told[name] for name in ("customer", "order", "item", "refund", "by")}

    @property
    def told_refund(self) -> str:
        """What is paid back, as the manager works it out."""
        match self.trouble:
            case "late":
                return f"the postage back, {self.postage}"
            case "twice":
                return f"the price back, {self.price}"
        return f"price and postage back, {self.price} + {self.postage} = {self.refund}"

    def write_right_reply(self) -> str:
        """As the manager would write it."""
        return (
            f"Dear {self.customer}, we are sorry that the {self.item} of order {self.order} {SORRY[self.trouble]}. You "
            f"get {self.told_refund} euros, and all of it is settled by {self.by}. {ENDING}"
        )


def make_tickets(*, seed: int = SEED, a_sentence: int = TICKETS_A_SENTENCE) -> Iterator[Ticket]:
    """Tickets in the order they come in, the same for the same seed.

    Args:
        a_sentence: tickets by each of the sentences that tell of a trouble.
    """
    drawn, troubles = Random(seed), list(_read_troubles()) * a_sentence
    openings, bills, closings = (_read_lines(text) for text in (OPENINGS, BILLS, CLOSINGS))
    names, items = NAMES.split(), [" ".join(item.split()) for item in ITEMS.split(",")]
    drawn.shuffle(troubles)
    orders = drawn.sample(range(1_000, 10_000), len(troubles))
    for (trouble, sentence, is_held_out), number in zip(troubles, orders, strict=True):
        customer, item, order = drawn.choice(names), drawn.choice(items), f"Q-{number}"
        price, postage = 10 * drawn.randint(1, 9), drawn.randint(3, 7)
        came = date(2026, 1, 1) + timedelta(days=drawn.randrange(360))
        letter = " ".join((drawn.choice(openings), sentence, drawn.choice(bills), drawn.choice(closings)))
        text = letter.format(customer=customer, item=item, order=order, price=price, postage=postage)
        yield Ticket(
            prompt=f"Ticket of {say_day(came)}\n{text}\n\nReply:",
            is_held_out=is_held_out,
            trouble=trouble,
            customer=customer,
            order=order,
            item=item,
            price=price,
            postage=postage,
            refund=REFUNDS[trouble](price, postage),
            by=say_day(came + ANSWER_WITHIN),
        )


def _read_troubles() -> Iterator[tuple[str, str, bool]]:
    """(trouble, sentence that tells of it, whether it is held out)."""
    for trouble, text in TROUBLES.items():
        sentences = _read_lines(text)
        for place, sentence in enumerate(sentences, start=1):
            yield trouble, sentence, place > len(sentences) - HELD_OUT_SENTENCES


def _read_lines(text: str) -> list[str]:
    return text.strip().splitlines()


def say_day(day: date) -> str:
    """Day and month in English, such as 3 May, whatever the machine's language."""
    return f"{day.day} {MONTHS.split()[day.month - 1]}"


Rule = tuple[str, str, Mapping[str, Any]]
"""Name, what it is for, and the check."""
RULES: Final[Sequence[Rule]] = (
    ("names-ticket", "The reply names the customer, the order and the item.",
     {"all": [{"check": "contains", "value": {"fact": name}} for name in ("customer", "order", "item")]}),
    ("no-promises", "The reply promises nothing that the shop does not know.",
     {"check": "forbidden", "words": ["guarantee", "guaranteed", "promise", "immediately", "as soon as possible"]}),
    ("right-refund", "The reply says what is paid back, to the euro.",
     {"check": "regex", "pattern": {"fact": r"(?i)\b{refund} euros?\b"}}),
    ("right-day", "The reply says by when: the day after the ticket.",
     {"check": "regex", "pattern": {"fact": r"\b{by}\b"}}),
    ("house-ending", "The reply ends as ours do.",
     {"check": "regex", "pattern": r"With sea air, your Quayside desk\.\s*$"}),
    ("right-length", "The reply is neither curt nor long.",
     {"check": "length", "unit": "words", "min": 20, "max": 60}),
)  # fmt: skip
EXAMPLE: Final = """Tickets of a shop, with its replies.

Ticket of 2 February
Hello, my soup bowl came with a broken rim. Order Q-4711, 20 euros and 4 euros postage. Wanda

Reply: Dear Wanda, thank you for your message about the soup bowl of order Q-4711. We will look into it.
"""
"""Goes before every ticket, so that a model that only continues texts writes a reply. It tells none of the rules."""


def write_checks(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """A check of each rule, and `house`, which is all of them, one part each."""
    house = {"weighted": [[1, {"use": name}] for name, _, _ in rules]}
    return [
        *({"name": name, "about": about, "spec": spec} for name, about, spec in rules),
        {"name": "house", "about": "All rules, one part each.", "spec": house, "default_for": "chat"},
    ]


def write_support_desk(*, seed: int = SEED) -> dict[str, Any]:
    """The project as `tentalis project new` takes it: settings, checks, worker, tickets and some replies to them."""
    tickets = list(make_tickets(seed=seed))
    rows = [
        {
            "prompt": ticket.prompt,
            "split": "held_out" if ticket.is_held_out else "train",
            "checks": {"use": "house"},
            "metadata": ticket.facts,
        }
        for ticket in tickets
    ]
    shown = [ticket for ticket in tickets if not ticket.is_held_out][:SHOWN]
    return {
        "environment": "chat",
        "project": {
            "name": "Support desk",
            "batch_tasks": 8,
            "recipe": {
                "learning_rate": 5e-5,
                "lora_rank": 16,
                "lora_alpha": 32.0,
                "precision": "bfloat16",
                "answer_tokens": ANSWER_TOKENS,
            },
            "gate_policy": {
                "length_drift": 1.0,
                "base_distance_nats": STYLE_NATS,
                "panel_size": len(TROUBLES) * HELD_OUT_SENTENCES * TICKETS_A_SENTENCE,
            },  # each once: tries cost seconds
        },
        "checks": write_checks(RULES),
        "taskset": {"name": "tickets", "about": "Held out by letter, not by ticket."},
        "worker": {
            "name": "desk",
            "kind": "chat",
            "system_prompt": EXAMPLE,
            "sampling": {"temperature": 1.0, "max_tokens": ANSWER_TOKENS},
        },
        "rows": rows,
        "shown": {
            "recipe": {
                "epochs": 1,
                "minibatches": 40,
                "learning_rate": 6e-4,
                "schedule": "linear",
                "warmup_updates": 2,
                "held_out_share": 0.05,
                "rehearsal_texts": 192,
            },
            "replies": [
                {
                    "messages": [
                        {"role": "user", "content": ticket.prompt},
                        {"role": "assistant", "content": ticket.write_right_reply()},
                    ]
                }
                for ticket in shown
            ],
        },
    }
