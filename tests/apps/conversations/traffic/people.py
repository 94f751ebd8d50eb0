"""People who correct an answer, among what their client asks besides."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.apps.conversations.traffic.programs import CODE, SUGGEST, TASKS, TITLE
from tests.apps.conversations.traffic.sending import (
    MESSAGES,
    Answer,
    Case,
    Clock,
    Json,
    Kinds,
    Send,
    ask,
    claude_headers,
    code_body,
    name,
    name_session,
    results_of,
    system,
    tool_of,
    user,
)
from tests.apps.conversations.traffic.wording import (
    Matter,
    draw_agent,
    draw_aside,
    draw_correction,
    draw_fault,
    draw_job,
    draw_matter,
    draw_order,
    draw_tools,
)

READING_S: Final = 60.0
"""What a person takes to read an answer and write, give or take."""
Side = Callable[[random.Random, Clock, Mapping[str, str], Sequence[Json], Answer], Case]
"""What a client asks between an answer and what is said to it: so far talked, and the answer."""


def correct(
    dice: random.Random,
    matter: Matter,
    *sides: Side,
    headers: Mapping[str, str] | None = None,
    opening: Sequence[Json] | None = None,
    **fields: Any,
) -> Case:
    """A person asks, and corrects the answer; `sides` come in between. Some have talked before, some talk on."""
    clock, key = Clock(dice, READING_S), headers or {}
    talk = [draw_agent(dice)] if opening is None else list(opening)
    if dice.random() < 0.5:
        talk.append(user(draw_order(dice)))
        answer = yield Send(clock.wait(5), ask(*talk, **fields), f"That was {dice.randrange(10**6)}.", headers=key)
        talk.append(answer.message)
    talk.append(user(matter.question))
    answer = yield Send(clock.wait(), ask(*talk, **fields), matter.wrong, headers=key)
    for side in sides:
        yield from side(dice, clock, key, talk, answer)
    talk = [*talk, answer.message, user(draw_correction(dice, matter.right))]
    noted = yield Send(clock.wait(), ask(*talk, **fields), "Thank you, noted.", headers=key)
    if dice.random() < 0.5:
        talk = [*talk, noted.message, user(draw_aside(dice))]
        yield Send(clock.wait(), ask(*talk, **fields), f"{dice.randrange(10**6)}.", headers=key)
    return [answer.exchange]


# --- what clients ask in between --------------------------------------------------------------------------------------


def make_title(dice: random.Random, clock: Clock, key: Mapping[str, str], talk: Sequence[Json], answer: Answer) -> Case:
    question = str(talk[-1]["content"])
    words = user("Generate a title for this conversation:\n")
    yield Send(clock.wait(3), ask(system(TITLE), words, user(question)), "A sum", headers=key)
    asked = system(f"Name what this is about in {dice.choice(('two', 'three', 'five'))} words.")
    yield Send(clock.wait(2), ask(asked, user(question)), "A sum", headers=key)
    return []


def run_subagent(
    dice: random.Random, clock: Clock, key: Mapping[str, str], talk: Sequence[Json], answer: Answer
) -> Case:
    tools = dice.choice((("grep",), ("glob", "read"), ("web_search", "web_fetch")))
    inner = [system("You search files and report what you find, nothing else."), user(draw_order(dice))]
    for k in range(dice.randint(1, 3)):
        calls = ((dice.choice(tools), json.dumps({"try": k})),)
        found = yield Send(clock.wait(4), ask(*inner, tools=tools), calls=calls, headers=key)
        inner = [*inner, found.message, *tool_of(found, draw_fault(dice))]
    yield Send(clock.wait(4), ask(*inner, tools=tools), "Nothing there.", headers=key)
    return []


def run_tasks(dice: random.Random, clock: Clock, key: Mapping[str, str], talk: Sequence[Json], answer: Answer) -> Case:
    """Open WebUI's."""
    for task in dice.sample(TASKS, dice.randint(1, 3)):
        yield Send(clock.wait(2), ask(user(f"### Task:\n{task}.\n{talk[-1]['content']}")), "{}", headers=key)
    return []


def look_aside(dice: random.Random, clock: Clock, key: Mapping[str, str], talk: Sequence[Json], answer: Answer) -> Case:
    """What nobody knows for a program's, asked behind the answer in the same words' place, at once or later."""
    asked = dice.choice((
        "List {n} things one could say next, as JSON.", "Rate how urgent this is from 1 to {n}.",
        "Which language is this in? {n} letters.", "Does the text above name an order with {n} digits?",
    )).format(n=dice.randrange(2, 100))  # fmt: skip
    yield Send(clock.wait(dice.choice((2, 5))), ask(*talk, answer.message, user(asked)), "[]", headers=key)
    return []


def keep_time(dice: random.Random, clock: Clock, key: Mapping[str, str], talk: Sequence[Json], answer: Answer) -> Case:
    """A timer of the same client asks under the same name, more than once."""
    asked = [system("You look after what runs every hour: queues, logs, backups."), user(draw_job(dice))]
    for _ in range(dice.randint(1, 3)):
        yield Send(clock.wait(30), ask(*asked), f"{dice.randrange(100)} wait.", headers=key)
    return []


SIDES: Final[Sequence[Side]] = (make_title, run_subagent, run_tasks, look_aside, keep_time)


# --- people -----------------------------------------------------------------------------------------------------------


def person_alone(dice: random.Random) -> Case:
    return (yield from correct(dice, draw_matter(dice)))


def person_with_a_name(dice: random.Random) -> Case:
    return (yield from correct(dice, draw_matter(dice), headers=name_session(dice)))


def person_and_title(dice: random.Random) -> Case:
    return (yield from correct(dice, draw_matter(dice), make_title, headers=name_session(dice)))


def person_and_subagent(dice: random.Random) -> Case:
    return (yield from correct(dice, draw_matter(dice), run_subagent, headers=name_session(dice)))


def person_in_open_webui(dice: random.Random) -> Case:
    """Nothing has a name: the client forwards none."""
    return (yield from correct(dice, draw_matter(dice), run_tasks, opening=[]))


def person_after_an_unknown_aside(dice: random.Random) -> Case:
    return (yield from correct(dice, draw_matter(dice), look_aside, headers=name_session(dice)))


def person_among_much(dice: random.Random) -> Case:
    sides = dice.sample(SIDES, dice.randint(2, len(SIDES)))
    return (yield from correct(dice, draw_matter(dice), *sides, headers=name_session(dice)))


def person_whose_answer_was_retried(dice: random.Random) -> Case:
    """The first answer was lost; the person saw, and corrects, the second."""
    matter, clock, key = draw_matter(dice), Clock(dice, READING_S), name_session(dice)
    talk = [draw_agent(dice), user(matter.question)]
    yield Send(0.0, ask(*talk), f"Lost: {matter.wrong}", headers=key)
    answer = yield Send(clock.wait(8), ask(*talk), matter.wrong, headers=key | {"x-stainless-retry-count": "1"})
    talk = [*talk, answer.message, user(draw_correction(dice, matter.right))]
    yield Send(clock.wait(), ask(*talk), "Noted.", headers=key)
    return [answer.exchange]


def two_people_who_open_alike(dice: random.Random) -> Case:
    """Behind one token, without names: one is content, the other corrects."""
    matter = draw_matter(dice)
    opening = [draw_agent(dice), user(dice.choice(("Hi", "Hello, can you help me?", "Hi, how many lamps are left?")))]
    alice = yield Send(0.0, ask(*opening), f"Hello! There are {dice.randrange(10**6)} of them.")
    bob = yield Send(1.0, ask(*opening), f"Good day, {matter.wrong}")
    said = [
        (alice, user(draw_aside(dice)), "Two."),
        (bob, user(draw_correction(dice, matter.right)), "Noted."),
    ]
    for k, (answer, words, reply) in enumerate(dice.sample(said, 2)):
        yield Send(30.0 + k, ask(*opening, answer.message, words), reply)
    return [bob.exchange]


def one_person_two_chats(dice: random.Random) -> Case:
    """Two open at once under the person's name alone."""
    who: dict[str, Any] = {"user": f"ann-{name(dice)}"}
    matter, other = draw_matter(dice), draw_matter(dice)
    agent, clock = draw_agent(dice), Clock(dice, READING_S)
    first, second = [agent, user(other.question)], [agent, user(matter.question)]
    one = yield Send(0.0, ask(*first, **who), other.wrong)
    two = yield Send(clock.wait(5), ask(*second, **who), matter.wrong)
    yield Send(clock.wait(), ask(*first, one.message, user(draw_aside(dice)), **who), "In the hall.")
    said = user(draw_correction(dice, matter.right))
    yield Send(clock.wait(), ask(*second, two.message, said, **who), "Noted.")
    return [two.exchange]


def person_with_claude_code(dice: random.Random) -> Case:
    """With a tool before the answer, an agent below it, and a suggestion of what to type."""
    metadata, headers = claude_headers(dice)
    common: Any = {"headers": headers, "path": MESSAGES}
    matter, clock = draw_matter(dice), Clock(dice, READING_S)
    talk = [user(matter.question)]
    for k in range(dice.randint(0, 2)):
        calls = (("Bash", json.dumps({"command": f"bc {k}"})),)
        used = yield Send(clock.wait(5), code_body(metadata, *talk, prompt=CODE), calls=calls, **common)
        talk = [*talk, used.message, results_of(used, str(dice.randrange(100)))]
    answer = yield Send(clock.wait(5), code_body(metadata, *talk, prompt=CODE), matter.wrong, **common)
    inner = common | {"headers": headers | {"x-claude-code-agent-id": name(dice)}}
    work = code_body(metadata, user(draw_order(dice)), prompt="You are an agent.")
    yield Send(clock.wait(1), work, "Found.", **inner)
    suggested = code_body(metadata, *talk, answer.message, user(SUGGEST), prompt=CODE)
    yield Send(clock.wait(3), suggested, dice.choice(("thanks", "run the tests")), **common)
    reminded = {"type": "text", "text": "<system-reminder>Mind the list.</system-reminder>"}
    said = {"role": "user", "content": [reminded, {"type": "text", "text": draw_correction(dice, matter.right)}]}
    yield Send(clock.wait(), code_body(metadata, *talk, answer.message, said, prompt=CODE), "Noted.", **common)
    return [answer.exchange]


def person_whose_agent_remembers(dice: random.Random) -> Case:
    """The agent writes the time and what it remembers into its system prompt."""
    matter, key, clock = draw_matter(dice), name_session(dice), Clock(dice, READING_S)
    talk, tools = [user(matter.question)], dice.choice(((), draw_tools(dice)))
    prompt = str(draw_agent(dice)["content"])
    then = system(f"{prompt} It is 10:14:{dice.randrange(10, 60)}.")
    answer = yield Send(0.0, ask(then, *talk, tools=tools), matter.wrong, headers=key)
    talk = [*talk, answer.message, user(draw_correction(dice, matter.right))]
    later = system(f"{prompt} It is 10:15:{dice.randrange(10, 60)}. Asked for number {dice.randrange(100)}.")
    yield Send(clock.wait(), ask(later, *talk, tools=tools), "Noted.", headers=key)
    return [answer.exchange]


AMONG_OTHERS: Kinds = {
    case.__name__: case
    for case in (
        person_and_title, person_and_subagent, person_in_open_webui, person_whose_answer_was_retried,
        one_person_two_chats, person_with_claude_code, person_after_an_unknown_aside, person_among_much,
    )
}  # fmt: skip
"""Those whose session holds other requests than theirs."""
PEOPLE: Kinds = {
    case.__name__: case
    for case in (
        person_alone, person_with_a_name, *AMONG_OTHERS.values(), two_people_who_open_alike,
        person_whose_agent_remembers,
    )
}  # fmt: skip
