"""What is asked, answered and said to it, drawn anew for each conversation."""

import random
from typing import Final, NamedTuple

from tests.apps.conversations.traffic.sending import Json, system, user


class Matter(NamedTuple):
    """What a conversation is about. `wrong` is the model's answer; `right`: what a person would say it is."""

    question: str
    wrong: str
    right: str


_THINGS: Final = ("lamps", "bicycles", "teapots", "garden chairs", "printers", "rucksacks", "shelves", "telescopes")
_TOWNS: Final = ("Lyon", "Graz", "Oslo", "Porto", "Ghent", "Brno", "Cork", "Turin")
_MONTHS: Final = ("January", "March", "May", "June", "August", "October", "December")
_GREETINGS: Final = ("", "", "", "Hi! ", "Good morning. ", "Hello there. ", "One more question: ", "Quickly: ")
_CLOSINGS: Final = ("", "", "", " Please be exact.", " It is urgent.", " One line is enough.", " Think it over first.")
_ROLES: Final = (
    "You are the support agent of a shop for {things}.",
    "You help customers of a warehouse in {town} that keeps {things}.",
    "Act as the assistant of a small company in {town}; it repairs {things}.",
    "You answer questions about {things}, their parts and their prices.",
    "Du bist der Assistent eines Ladens für {things} in {town}. Answer in English.",
)
_MANNERS: Final = (
    "Look orders up, be brief, never guess a price.", "Name the order that you speak of. Ask back where it is unclear.",
    "Use the tools that you are given before you say that something is so.", "Be polite and exact.",
    "Never promise a date which the carrier did not name.\n\n- no lists\n- no headings",
)  # fmt: skip
_TOOLS: Final = (
    ("look_up", "search", "book"), ("find_order", "cancel_order", "refund"), ("search",), ("get_stock", "reserve"),
    ("run_sql", "send_mail", "read_file", "write_file"), ("browser", "python"),
)  # fmt: skip
_CORRECTIONS: Final = (
    "No, that's wrong. It should be {right}.", "That's not right, the right answer is {right}.",
    "Wrong. The correct answer is {right}.", "That is not correct: {right}.", "Incorrect, it should have been {right}!",
    "Nope, {right}.", "no, it must be {right}", "Hmm no, that should be {right}. Please look again.",
    "Not quite. The answer is {right}, not what you say.", "I said it before: this should be {right}.",
    "This is wrong, and our customer has seen it. Correct answer: {right}", "It's wrong!\n\nI wanted {right}.",
    "You forgot something, it is {right}.", "Actually, {right}. You misunderstood me.",
    "that isn't right :( should be {right}", "No \u2014 it\u2019s {right}, you made a mistake.",
)  # fmt: skip
_ORDERS: Final = (
    "Find the file that holds number {n}.", "Rename variable x{n} everywhere.", "Fix the test in module m{n}.",
    "Explain what function f{n} does.", "Search the code for {n} and say where it is used.",
    "Port script {n} to the new interface.", "Count the rows of table t{n} by {town}.", "Book order {n} again.",
)  # fmt: skip
_FAULTS: Final = (
    "Error: no such file", '{{"error": "no such order {n}"}}', "error: nothing found for {n}", "Traceback (most recent "
    'call last):\n  File "a.py", line {n}\nKeyError: {n}', '{{"exit_code": 1, "stderr": "wrong argument {n}"}}',
    "timed out after {n} s", "7", '{{"rows": []}}', "No, that is wrong: {n} is not known here.",
)  # fmt: skip
_ASIDES: Final = (
    "And in red?", "Which of them is the cheapest?", "Where can it be picked up?", "How long does that take?",
    "What else do you need from me?", "Send it to {town} then.", "And for number {n}?", "Who looks after that?",
)  # fmt: skip
_JOBS: Final = (
    "Check the queue and report.", "Write the daily report.", "Summarise what came in since yesterday.",
    "Are there orders older than {n} days?", "Say how many parcels wait in {town}.", "Report job {n}.",
)  # fmt: skip


def draw_matter(dice: random.Random) -> Matter:
    """A question, a wrong answer to it, and the right one; no two alike."""
    one, other, number = dice.randrange(100, 10_000), dice.randrange(100, 10_000), dice.randrange(10**6, 10**7)
    here, there = dice.sample(_TOWNS, 2)
    month, later = dice.sample(_MONTHS, 2)
    things = dice.choice(_THINGS)
    asked = dice.choice((
        (f"What do {one} and {other} make?", f"{one} and {other} make {one + other + 1}.", str(one + other)),
        (f"Where is order {number}?", f"Order {number} is in {here}.", f"in {there}, with carrier {one}"),
        (f"How much are {things} of type T{number}?", f"They are {one} EUR.", f"{one}.{other % 100:02} EUR"),
        (f"When does parcel {number} reach {here}?", f"On {month} {one % 28 + 1}.", f"{later} {other % 28 + 1}"),
        (f"How many {things} are left in {here}, shelf {number}?", f"There are {one} of them.", f"{other} in {there}"),
        (f"Which line of m{number}.py raises?\n\n```\nKeyError: {one}\n```", f"Line {one}.", f"line {other} of m{one}"),
        (f"What is article {number} called in {here}?", f"It is called {things} {one}.", f"{things} {other}"),
    ))  # fmt: skip
    return Matter(f"{dice.choice(_GREETINGS)}{asked[0]}{dice.choice(_CLOSINGS)}", *asked[1:])


def draw_agent(dice: random.Random) -> Json:
    """An agent's system prompt."""
    role = dice.choice(_ROLES).format(things=dice.choice(_THINGS), town=dice.choice(_TOWNS))
    return system(" ".join([role, *dice.sample(_MANNERS, dice.randint(1, 3))]))


def draw_tools(dice: random.Random) -> tuple[str, ...]:
    return dice.choice(_TOOLS)


def draw_correction(dice: random.Random, right: object) -> str:
    """Words that say that an answer is wrong, and which is right: a person's, or what a program makes look like it."""
    return dice.choice(_CORRECTIONS).format(right=right)


def draw_order(dice: random.Random) -> str:
    """What an agent that works is told to do."""
    return _draw(dice, _ORDERS)


def draw_fault(dice: random.Random) -> str:
    """What a tool answers, mostly that it failed."""
    return _draw(dice, _FAULTS)


def draw_aside(dice: random.Random) -> str:
    """What a person says on, that judges nothing."""
    return _draw(dice, _ASIDES)


def draw_job(dice: random.Random) -> str:
    """What a timer asks for."""
    return _draw(dice, _JOBS)


def draw_told(dice: random.Random) -> Json:
    """An order as its message."""
    return user(draw_order(dice))


def _draw(dice: random.Random, words: tuple[str, ...]) -> str:
    return dice.choice(words).format(n=dice.randrange(10**5, 10**6), town=dice.choice(_TOWNS))
