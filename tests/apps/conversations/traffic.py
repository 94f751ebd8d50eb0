"""Recorded shapes of traffic, as clients send it: what programs ask, and people among them.

Each case is one conversation (or several at once) as a generator of requests; it is sent the answers, and returns what
people said of which answer. The shapes are those of the clients' own code: their headers, their prompts' beginnings,
how they repeat an answer, write a tool's result, try again.
"""

import json
import random
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
CORRECTION = "No, that's wrong. It should be {answer}."
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


@dataclass(frozen=True)
class Send:
    """A request, and what the model is to answer to it.

    Args:
        at_s: when it is sent, since the conversation began; the answer takes a second.
        calls: (tool, arguments) that the model asks for. status: of the answer; is_cut: it breaks off on the way.
    """

    at_s: float
    body: Json
    reply: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = CHAT
    status: int = 200


@dataclass(frozen=True)
class Answer:
    """What came back. `exchange`: its public id; `message`: as the client repeats it."""

    exchange: str
    message: Json


Case = Generator[Send, Answer, list[str]]
"""Its end: public ids of the exchanges that a person corrected."""


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def tool_of(answer: Answer, text: str) -> list[Json]:
    calls = answer.message.get("tool_calls", [])
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]


def ask(*messages: Json, tools: tuple[str, ...] = (), **fields: Any) -> Json:
    made = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in tools
    ]
    return {"messages": list(messages), **({"tools": made} if made else {}), **fields}


def name(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128)))


def sum_of(dice: random.Random) -> tuple[str, str, str]:
    """A question, a wrong answer in words, and the right one."""
    one, other = dice.randrange(100, 10_000), dice.randrange(100, 10_000)
    return f"What do {one} and {other} make?", f"{one} and {other} make {one + other + 1}.", str(one + other)


AGENT = system("You are the support agent of a shop for lamps. Look orders up, be brief, never guess a price.")
SHOP_TOOLS = ("look_up", "search", "book")
CODE = "You are Claude Code, Anthropic's official CLI for Claude.\nYou help with software engineering tasks in a repo."
OPENCODE = "You are opencode, an interactive CLI tool that helps users with software engineering tasks. Be concise."
TITLE = "You are a title generator. You output ONLY a thread title. Nothing else."


# --- programs ---------------------------------------------------------------------------------------------------------


def eval_loop(dice: random.Random) -> Case:
    question, wrong, _ = sum_of(dice)
    for k in range(4):
        yield Send(5.0 * k, ask(AGENT, user(question)), f"{wrong} ({k})")
    return []


def cron_without_a_name(dice: random.Random) -> Case:
    job = dice.randrange(10**6)
    for k in range(3):
        yield Send(600.0 * k, ask(AGENT, user(f"Report job {job}.")), "All is well.")
    return []


def cron_with_a_name(dice: random.Random) -> Case:
    key = {"X-Session-Id": f"cron-{name(dice)}"}
    for _ in range(3):
        yield Send(600.0 * _, ask(AGENT, user("Write the daily report.")), "All is well.", headers=key)
    return []


def cron_of_a_user(dice: random.Random) -> Case:
    who = f"scheduler-{name(dice)}"
    for k in range(3):
        yield Send(600.0 * k, ask(AGENT, user("Check the queue."), user=who), f"{k} jobs wait.")
    return []


def cron_that_remembers(dice: random.Random) -> Case:
    talk, key = [AGENT], {"X-Session-Id": f"memory-{name(dice)}"}
    for k in range(4):
        talk = [*talk, user("Check the queue and report.")]
        answer = yield Send(600.0 * k, ask(*talk), f"{k} jobs wait.", headers=key)
        talk = [*talk, answer.message]
    return []


def health_check(dice: random.Random) -> Case:
    for k in range(5):
        yield Send(30.0 * k, ask(user("ping"), max_tokens=1, metadata={"probe": f"p{dice.randrange(9)}"}), "pong")
    return []


def parallel_attempts(dice: random.Random) -> Case:
    question, wrong, _ = sum_of(dice)
    key = {"X-Session-Id": f"group-{name(dice)}"}
    asked = [AGENT, user(question)]
    first = []
    for k in range(3):
        calls = (("search", json.dumps({"q": k})),)
        first.append((yield Send(0.1 * k, ask(*asked, tools=SHOP_TOOLS), calls=calls, headers=key)))
    for k, answer in enumerate(first):
        talk = [*asked, answer.message, *tool_of(answer, f"result {k}")]
        yield Send(9.0 + 0.1 * k, ask(*talk, tools=SHOP_TOOLS), f"{wrong} {k}", headers=key)
    return []


def several_choices(dice: random.Random) -> Case:
    question, wrong, _ = sum_of(dice)
    for k in range(2):
        yield Send(20.0 * k, ask(AGENT, user(question), n=3), wrong)
    return []


def openai_retry(dice: random.Random) -> Case:
    """The answer was lost on the way to the client, which sends the same again."""
    question, wrong, _ = sum_of(dice)
    key = f"app-{name(dice)}"
    for k in range(3):
        headers = {"X-Session-Id": key, "x-stainless-retry-count": str(k), "User-Agent": "OpenAI/Python 3.54.0"}
        yield Send(8.0 * k, ask(AGENT, user(question)), f"{wrong} ({k})", headers=headers)
    return []


def openai_retry_after_failure(dice: random.Random) -> Case:
    question, wrong, _ = sum_of(dice)
    key = {"X-Session-Id": f"app-{name(dice)}"}
    yield Send(0.0, ask(AGENT, user(question)), status=500, headers=key)
    yield Send(3.0, ask(AGENT, user(question)), wrong, headers=key | {"x-stainless-retry-count": "1"})
    return []


def anthropic_retry(dice: random.Random) -> Case:
    question, wrong, _ = sum_of(dice)
    who = {"user_id": f"user_{dice.getrandbits(64):x}_account_{name(dice)}_session_{name(dice)}"}
    body = {"system": "Be brief.", "messages": [user(question)], "max_tokens": 64, "metadata": who}
    for k in range(2):
        yield Send(12.0 * k, dict(body), wrong, headers={"x-stainless-retry-count": str(k)}, path=MESSAGES)
    return []


def claude_headers(dice: random.Random) -> tuple[Json, dict[str, str]]:
    session = name(dice)
    who = {"device_id": f"{dice.getrandbits(128):x}", "account_uuid": name(dice), "session_id": session}
    headers = {"User-Agent": "claude-cli/2.1.330 (external, cli)", "X-Claude-Code-Session-Id": session}
    return {"user_id": json.dumps(who)}, headers


def code_body(metadata: Json, *messages: Json, prompt: str = CODE, tools: tuple[str, ...] = ("Bash", "Read")) -> Json:
    made = [{"name": one, "input_schema": {"type": "object", "properties": {}}} for one in tools]
    return {
        "system": [{"type": "text", "text": prompt, "cache_control": {"type": "ephemeral"}}],
        "messages": list(messages), "max_tokens": 256, "metadata": metadata, **({"tools": made} if made else {}),
    }  # fmt: skip


def claude_code_quota_and_titles(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    common: Any = {"headers": headers, "path": MESSAGES}
    quota = {"messages": [user("quota")], "max_tokens": 1, "metadata": metadata}
    yield Send(0.0, quota, "ok", **common)
    words = f"Fix the test in module {dice.randrange(10**6)}."
    topic = "Analyze if this message indicates a new conversation topic. If it does, extract a 2-3 word title."
    yield Send(5.0, code_body(metadata, user(words), prompt=topic, tools=()), '{"isNewTopic": true}', **common)
    talk = [user(words)]
    for k in range(3):
        answer = yield Send(6.0 + 30 * k, code_body(metadata, *talk), calls=(("Bash", '{"command": "ls"}'),), **common)
        used = [part for part in answer.message["content"] if part["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "Error: no such file"} for one in used]
        talk = [*talk, answer.message, {"role": "user", "content": results}]
    yield Send(120.0, code_body(metadata, *talk), "It passes now.", **common)
    title = "Please write a 5-10 word title for the following conversation:\n\n" + words
    yield Send(140.0, code_body(metadata, user(title), prompt="You summarise.", tools=()), "Fixing a test", **common)
    return []


def claude_code_subagent(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    headers = headers | {"x-claude-code-agent-id": name(dice)}
    talk = [user(f"Search the code for {dice.randrange(10**6)}.")]
    for k, said in enumerate(("No, that is wrong. Look again in src.", "Thanks, perfect!", "")):
        body = code_body(metadata, *talk, prompt="You are an agent for Claude Code.")
        answer = yield Send(30.0 * k, body, f"Found {k}.", headers=headers, path=MESSAGES)
        talk = [*talk, answer.message, user(said)]
    return []


def claude_code_compaction(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    common: Any = {"headers": headers, "path": MESSAGES}
    words = user(f"Rename variable {dice.randrange(10**6)}.")
    answer = yield Send(0.0, code_body(metadata, words), "Done.", **common)
    talk = [words, answer.message]
    suggestion = user("[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]")
    yield Send(3.0, code_body(metadata, *talk, suggestion), "No, that's wrong", **common)
    summary = user("Your task is to create a detailed summary of the conversation so far. It was wrong, then right.")
    answer = yield Send(60.0, code_body(metadata, *talk, summary), "A summary.", **common)
    begun = user("This session is being continued from a previous conversation that ran out of context. It was wrong.")
    yield Send(90.0, code_body(metadata, begun), "Going on.", **common)
    return []


def opencode_title(dice: random.Random) -> Case:
    key = {"x-session-affinity": f"ses_{name(dice)}", "User-Agent": "opencode/1.18.33"}
    words = user(f"Explain function {dice.randrange(10**6)}.")
    title = [system(TITLE), user("Generate a title for this conversation:\n"), words]
    yield Send(0.0, ask(*title), "Explaining a function", headers=key)
    talk = [system(OPENCODE), words]
    answer = yield Send(0.2, ask(*talk, tools=("read", "bash")), calls=(("read", '{"path": "a"}'),), headers=key)
    talk = [*talk, answer.message, *tool_of(answer, "Error: file not found")]
    yield Send(8.0, ask(*talk, tools=("read", "bash")), "It adds numbers.", headers=key)
    return []


def open_webui_tasks(dice: random.Random) -> Case:
    key = {"X-OpenWebUI-Chat-Id": name(dice), "X-OpenWebUI-User-Id": name(dice)}
    question, wrong, _ = sum_of(dice)
    answer = yield Send(0.0, ask(user(question)), wrong, headers=key)
    history = f"<chat_history>\nUSER: {question}\nASSISTANT: {answer.message['content']}\n</chat_history>"
    for k, task in enumerate(
        ("Generate a concise, 3-5 word title", "Generate 1-3 broad tags", "Suggest 3-5 relevant follow-up questions")
    ):
        yield Send(
            2.5 + k, ask(user(f"### Task:\n{task} for the chat.\n### Chat History:\n{history}")), "{}", headers=key
        )
    return []


def smolagents_code(dice: random.Random) -> Case:
    talk = [system("You are an expert assistant who can solve any task using code blobs."), user("New task:\nCount.")]
    talk[1] = user(f"New task:\nCount to {dice.randrange(10**6)}.")
    for k in range(4):
        answer = yield Send(12.0 * k, ask(*talk), f"Thought: next.\n<code>\nprint({k % 2})\n</code>")
        seen = {"type": "text", "text": f"Observation:\nExecution logs:\n{k % 2}\nLast output from code snippet:\nNone"}
        talk = [*talk, answer.message, {"role": "user", "content": [seen]}]
    yield Send(60.0, ask(*talk), "<code>final_answer(4)</code>")
    return []


def smolagents_errors(dice: random.Random) -> Case:
    talk = [system("You are an expert assistant who can solve any task using tool calls.")]
    talk.append(user(f"New task:\nFind the age of person {dice.randrange(10**6)}."))
    for k in range(3):
        answer = yield Send(15.0 * k, ask(*talk), f"Action: search {k}")
        error = (
            f"Error:\nThat is wrong, tool {k} does not exist.\nNow let's retry: take care not to repeat previous "
            "errors! If you have retried several times, try a completely different approach.\n"
        )
        talk = [*talk, answer.message, user(error)]
    yield Send(60.0, ask(*talk), "42")
    return []


def react_in_words(dice: random.Random) -> Case:
    key = {"X-Session-Id": f"react-{name(dice)}"}
    talk = [system("Answer with Thought, Action, Observation."), user(f"Who wrote book {dice.randrange(10**6)}?")]
    for k in range(3):
        answer = yield Send(40.0 * k, ask(*talk), f"Thought: look.\nAction: search[{k}]", headers=key)
        talk = [*talk, answer.message, user("Observation: No, that is wrong, there is no such book.")]
    yield Send(200.0, ask(*talk), "Final Answer: nobody", headers=key)
    return []


def mini_swe_agent(dice: random.Random) -> Case:
    talk = [
        system("You are a helpful assistant that can interact with a shell."),
        user(f"Fix #{dice.randrange(10**6)}."),
    ]
    for k in range(3):
        answer = yield Send(25.0 * k, ask(*talk), "THOUGHT: list.\n```bash\nls\n```")
        talk = [*talk, answer.message, user(f"<returncode>{k}</returncode>\n<output>\nwrong\n</output>")]
    yield Send(90.0, ask(*talk), "```bash\necho COMPLETE\n```")
    return []


def cline_results(dice: random.Random) -> Case:
    talk = [
        system("You are Cline, a highly skilled software engineer."),
        user(f"<task>\nPort {dice.random()}\n</task>"),
    ]
    for k in range(3):
        answer = yield Send(20.0 * k, ask(*talk), f"<read_file><path>{k}.py</path></read_file>")
        told = [f"[read_file for '{k}.py'] Result:", "No, that's not right, see the bug.", "<environment_details>\nx"]
        parts = [{"type": "text", "text": one} for one in told]
        talk = [*talk, answer.message, {"role": "user", "content": parts}]
    yield Send(70.0, ask(*talk), "<attempt_completion/>")
    return []


def parser_retries(dice: random.Random) -> Case:
    talk = [user(f"Extract the user from: Jason is {dice.randrange(10**6)}.")]
    retries = (
        "Validation Error found:\n1 validation error for User\nRecall the function correctly, fix the errors",
        "1 validation error:\nage: wrong type\n\nFix the errors and try again.",
    )
    for k, retry in enumerate(retries):
        answer = yield Send(7.0 * k, ask(*talk), f'{{"age": "x{k}"}}')
        talk = [*talk, answer.message, user(retry)]
    yield Send(30.0, ask(*talk), '{"age": 25}')
    return []


def critic_and_writer(dice: random.Random) -> Case:
    """Two agents under one name; what the critic's model answers is told to the writer as a user's words."""
    key = {"X-Session-Id": f"team-{name(dice)}"}
    question, wrong, right = sum_of(dice)
    talk = [system("You write answers. Be exact and polite to everybody."), user(question)]
    for k in range(2):
        answer = yield Send(30.0 * k, ask(*talk), f"{wrong} {'!' * k}", headers=key)
        judged = [system("You review what a colleague wrote: say what is wrong."), user(answer.message["content"])]
        said = yield Send(30.0 * k + 5, ask(*judged), CORRECTION.format(answer=f"{right} ({k})"), headers=key)
        talk = [*talk, answer.message, user(said.message["content"])]
    yield Send(90.0, ask(*talk), right, headers=key)
    return []


def played_user(dice: random.Random) -> Case:
    """A model plays the user through the same gateway, at a person's pace; nothing has a name."""
    question, wrong, _ = sum_of(dice)
    talk = [AGENT, user(question)]
    play = [system(f"You are a customer of a shop, number {dice.randrange(10**6)}. React to what you are told.")]
    for k, words in enumerate(("No, that is wrong. Try again please.", "Thank you so much, that is exactly right!")):
        answer = yield Send(40.0 * k, ask(*talk), f"{wrong} {'!' * k}")
        play = [*play, user(answer.message["content"])]
        said = yield Send(40.0 * k + 10, ask(*play), words)
        play = [*play, said.message]
        talk = [*talk, answer.message, user(said.message["content"])]
    yield Send(100.0, ask(*talk), "Bye.")
    return []


def doubt_at_once(dice: random.Random) -> Case:
    """A test of firmness: the doubt is there before anybody could have read the answer."""
    question, wrong, right = sum_of(dice)
    talk = [AGENT, user(question)]
    for k in range(3):
        answer = yield Send(1.5 * k, ask(*talk), f"{wrong} {'!' * k}", headers={"X-Session-Id": f"doubt-{right}"})
        talk = [*talk, answer.message, user(CORRECTION.format(answer=k))]
    return []


def few_shot_labels(dice: random.Random) -> Case:
    shots = [system("Label: good or bad."), user("Great lamp!"), {"role": "assistant", "content": "good"}]
    shots += [user("No, that is wrong."), {"role": "assistant", "content": "bad"}]
    for k in range(4):
        yield Send(4.0 * k, ask(*shots, user(f"Thanks, perfect! {dice.randrange(10**6)}")), "good")
    return []


def searched_tree(dice: random.Random) -> Case:
    """Several continuations of one state, one after the other."""
    question, wrong, _ = sum_of(dice)
    root = [AGENT, user(question)]
    answer = yield Send(0.0, ask(*root), wrong)
    for k in range(3):
        step = user(f"Branch {k}: think about it from the side {k}.")
        yield Send(10.0 + 4 * k, ask(*root, answer.message, step), f"Branch {k}.")
    return []


def failing_tools(dice: random.Random) -> Case:
    key = {"X-Session-Id": f"tools-{name(dice)}"}
    talk = [AGENT, user(f"Book order {dice.randrange(10**6)}.")]
    for k in range(3):
        calls = (("book", json.dumps({"try": k})),)
        answer = yield Send(15.0 * k, ask(*talk, tools=SHOP_TOOLS), calls=calls, headers=key)
        talk = [*talk, answer.message, *tool_of(answer, '{"error": "no such order"}')]
    yield Send(60.0, ask(*talk, tools=SHOP_TOOLS), "It cannot be booked.", headers=key)
    return []


MACHINES: Mapping[str, Callable[[random.Random], Case]] = {
    case.__name__: case
    for case in (
        eval_loop, cron_without_a_name, cron_with_a_name, cron_of_a_user, cron_that_remembers, health_check,
        parallel_attempts, several_choices, openai_retry, openai_retry_after_failure, anthropic_retry,
        claude_code_quota_and_titles, claude_code_subagent, claude_code_compaction, opencode_title, open_webui_tasks,
        smolagents_code, smolagents_errors, react_in_words, mini_swe_agent, cline_results, parser_retries,
        critic_and_writer, played_user, doubt_at_once, few_shot_labels, searched_tree, failing_tools,
    )
}  # fmt: skip


# --- people among them ------------------------------------------------------------------------------------------------


def correct(question: str, wrong: str, right: str, **common: Any) -> Case:
    """A person asks, and corrects the answer; what `between` sends comes in between."""
    between = common.pop("between", None)
    talk = [*common.pop("opening", [AGENT]), user(question)]
    fields = common.pop("fields", {})
    answer = yield Send(0.0, ask(*talk, **fields), wrong, **common)
    if between is not None:
        yield from between(talk, answer)
    talk = [*talk, answer.message, user(CORRECTION.format(answer=right))]
    yield Send(45.0, ask(*talk, **fields), "Thank you, noted.", **common)
    return [answer.exchange]


def person_alone(dice: random.Random) -> Case:
    return (yield from correct(*sum_of(dice)))


def person_and_title(dice: random.Random) -> Case:
    question, wrong, right = sum_of(dice)
    key = {"x-session-affinity": f"ses_{name(dice)}"}

    def title(talk: list[Json], answer: Answer) -> Case:
        words = user("Generate a title for this conversation:\n")
        yield Send(3.0, ask(system(TITLE), words, user(question)), "A sum", headers=key)
        yield Send(4.0, ask(system("Name what this is about in three words."), user(question)), "A sum", headers=key)
        return []

    return (yield from correct(question, wrong, right, headers=key, between=title))


def person_and_subagent(dice: random.Random) -> Case:
    question, wrong, right = sum_of(dice)
    key = {"X-Session-Id": name(dice)}

    def work(talk: list[Json], answer: Answer) -> Case:
        inner = [system("You search files and report what you find, nothing else."), user(f"Find {right}.")]
        found = yield Send(5.0, ask(*inner, tools=("grep",)), calls=(("grep", "{}"),), headers=key)
        inner = [*inner, found.message, *tool_of(found, "error: nothing")]
        yield Send(9.0, ask(*inner, tools=("grep",)), "Nothing there.", headers=key)
        return []

    return (yield from correct(question, wrong, right, headers=key, between=work))


def person_in_open_webui(dice: random.Random) -> Case:
    question, wrong, right = sum_of(dice)

    def tasks(talk: list[Json], answer: Answer) -> Case:
        yield Send(3.0, ask(user(f"### Task:\nGenerate a concise, 3-5 word title.\n{question}")), "{}")
        yield Send(4.0, ask(user(f"### Task:\nSuggest 3-5 relevant follow-up questions.\n{question}")), "{}")
        return []

    return (yield from correct(question, wrong, right, between=tasks, opening=[]))


def person_whose_answer_was_retried(dice: random.Random) -> Case:
    """The first answer was lost; the person saw, and corrects, the second."""
    question, wrong, right = sum_of(dice)
    key = {"X-Session-Id": name(dice)}
    talk = [AGENT, user(question)]
    yield Send(0.0, ask(*talk), f"Lost: {wrong}", headers=key)
    answer = yield Send(10.0, ask(*talk), wrong, headers=key | {"x-stainless-retry-count": "1"})
    talk = [*talk, answer.message, user(CORRECTION.format(answer=right))]
    yield Send(60.0, ask(*talk), "Noted.", headers=key)
    return [answer.exchange]


def two_people_who_open_alike(dice: random.Random) -> Case:
    """Behind one token, without names: one is content, the other corrects."""
    _, wrong, right = sum_of(dice)
    opening = [AGENT, user("Hi, how many lamps are left?")]
    alice = yield Send(0.0, ask(*opening), f"Hello! There are {right} of them.")
    bob = yield Send(1.0, ask(*opening), f"Good day, {wrong}")
    yield Send(30.0, ask(*opening, alice.message, user("And in red?")), "Two.")
    yield Send(31.0, ask(*opening, bob.message, user(CORRECTION.format(answer=right))), "Noted.")
    return [bob.exchange]


def one_person_two_chats(dice: random.Random) -> Case:
    """Two open at once under the person's name alone."""
    who: dict[str, Any] = {"user": f"ann-{name(dice)}"}
    question, wrong, right = sum_of(dice)
    first, second = [AGENT, user("Which lamps are green?")], [AGENT, user(question)]
    one = yield Send(0.0, ask(*first, **who), f"Those of number {right}.")
    two = yield Send(5.0, ask(*second, **who), wrong)
    yield Send(40.0, ask(*first, one.message, user("Where do they stand?"), **who), "In the hall.")
    yield Send(60.0, ask(*second, two.message, user(CORRECTION.format(answer=right)), **who), "Noted.")
    return [two.exchange]


def person_with_claude_code(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    common: Any = {"headers": headers, "path": MESSAGES}
    question, wrong, right = sum_of(dice)
    talk = [user(question)]
    first = yield Send(0.0, code_body(metadata, *talk), calls=(("Bash", '{"command": "bc"}'),), **common)
    used = [part for part in first.message["content"] if part["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "7"} for one in used]
    talk = [*talk, first.message, {"role": "user", "content": results}]
    answer = yield Send(6.0, code_body(metadata, *talk), wrong, **common)
    inner = common | {"headers": headers | {"x-claude-code-agent-id": name(dice)}}
    yield Send(7.0, code_body(metadata, user("Look for it."), prompt="You are an agent."), "Found.", **inner)
    suggestion = user("[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]")
    yield Send(10.0, code_body(metadata, *talk, answer.message, suggestion), "thanks", **common)
    reminded = {"type": "text", "text": "<system-reminder>Mind the list.</system-reminder>"}
    said = {"role": "user", "content": [reminded, {"type": "text", "text": CORRECTION.format(answer=right)}]}
    yield Send(70.0, code_body(metadata, *talk, answer.message, said), "Noted.", **common)
    return [answer.exchange]


def person_after_an_unknown_aside(dice: random.Random) -> Case:
    """A client asks behind the answer, in the same words' place, something that nobody knows for a program's."""
    question, wrong, right = sum_of(dice)
    key = {"X-Session-Id": name(dice)}

    def aside(talk: list[Json], answer: Answer) -> Case:
        words = user(f"List three things one could say next about {right}, as JSON.")
        yield Send(8.0, ask(*talk, answer.message, words), "[]", headers=key)
        return []

    return (yield from correct(question, wrong, right, headers=key, between=aside))


def person_whose_agent_remembers(dice: random.Random) -> Case:
    """The agent writes the time and what it remembers into its system prompt."""
    question, wrong, right = sum_of(dice)
    key = {"X-Session-Id": name(dice)}
    talk = [user(question)]
    prompt = str(AGENT["content"])
    answer = yield Send(0.0, ask(system(f"{prompt} It is 10:14:22."), *talk), wrong, headers=key)
    talk = [*talk, answer.message, user(CORRECTION.format(answer=right))]
    yield Send(45.0, ask(system(f"{prompt} It is 10:15:07. Asked for sums."), *talk), "Noted.", headers=key)
    return [answer.exchange]


PEOPLE: Mapping[str, Callable[[random.Random], Case]] = {
    case.__name__: case
    for case in (
        person_alone, person_and_title, person_and_subagent, person_in_open_webui, person_whose_answer_was_retried,
        two_people_who_open_alike, one_person_two_chats, person_with_claude_code, person_after_an_unknown_aside,
        person_whose_agent_remembers,
    )
}  # fmt: skip
