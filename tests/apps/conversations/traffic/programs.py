"""What programs ask, of which no word is a person's: evaluations, timers, retries, agents at work, models that talk."""

import json
import random
from typing import Any, Final

from tests.apps.conversations.traffic.sending import (
    MESSAGES,
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
    draw_agent,
    draw_correction,
    draw_fault,
    draw_job,
    draw_matter,
    draw_order,
    draw_told,
    draw_tools,
)

CODE: Final = (
    "You are Claude Code, Anthropic's official CLI for Claude.\nYou help with software engineering tasks in a repo."
)
OPENCODE: Final = (
    "You are opencode, an interactive CLI tool that helps users with software engineering tasks. Be concise."
)
TITLE: Final = "You are a title generator. You output ONLY a thread title. Nothing else."
SUGGEST: Final = "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]"
TASKS: Final = (
    "Generate a concise, 3-5 word title", "Generate 1-3 broad tags", "Suggest 3-5 relevant follow-up questions",
)  # fmt: skip
"""Open WebUI's own."""
_PRAISE: Final = (
    "Thanks, perfect!",
    "Great, that's right.",
    "Thank you so much, that is exactly right!",
    "Looks good.",
)


def eval_loop(dice: random.Random) -> Case:
    matter, agent, clock = draw_matter(dice), draw_agent(dice), Clock(dice, 5)
    for k in range(dice.randint(2, 6)):
        yield Send(
            clock.wait(), ask(agent, user(matter.question)), dice.choice((matter.wrong, f"{matter.wrong} ({k})"))
        )
    return []


def cron_without_a_name(dice: random.Random) -> Case:
    agent, job, clock = draw_agent(dice), draw_job(dice), Clock(dice, 600)
    for k in range(dice.randint(2, 4)):
        yield Send(clock.wait(), ask(agent, user(job)), dice.choice(("All is well.", f"{k} wait.")))
    return []


def cron_with_a_name(dice: random.Random) -> Case:
    agent, job, clock, key = draw_agent(dice), draw_job(dice), Clock(dice, 600), name_session(dice)
    for k in range(dice.randint(2, 4)):
        yield Send(clock.wait(), ask(agent, user(job)), dice.choice(("All is well.", f"{k} wait.")), headers=key)
    return []


def cron_of_a_user(dice: random.Random) -> Case:
    agent, job, clock = draw_agent(dice), draw_job(dice), Clock(dice, 600)
    who = f"scheduler-{name(dice)}"
    for k in range(dice.randint(2, 4)):
        yield Send(clock.wait(), ask(agent, user(job), user=who), f"{k} jobs wait.")
    return []


def cron_that_remembers(dice: random.Random) -> Case:
    talk, job, clock, key = [draw_agent(dice)], draw_job(dice), Clock(dice, 400), name_session(dice)
    for k in range(dice.randint(3, 5)):
        talk = [*talk, user(job)]
        answer = yield Send(clock.wait(), ask(*talk), f"{k} jobs wait.", headers=key)
        talk = [*talk, answer.message]
    return []


def health_check(dice: random.Random) -> Case:
    words, clock = dice.choice(("ping", "hi", "Say ok.", "test", "1+1=")), Clock(dice, 30)
    for _ in range(dice.randint(3, 6)):
        yield Send(clock.wait(), ask(user(words), max_tokens=1, metadata={"probe": f"p{dice.randrange(9)}"}), "ok")
    return []


def parallel_attempts(dice: random.Random) -> Case:
    """A group of attempts at one task, each a loop with a tool."""
    matter, tools, key = draw_matter(dice), draw_tools(dice), name_session(dice)
    asked = [draw_agent(dice), user(matter.question)]
    first = []
    for k in range(dice.randint(2, 4)):
        calls = ((dice.choice(tools), json.dumps({"q": k})),)
        first.append((yield Send(0.1 * k, ask(*asked, tools=tools), calls=calls, headers=key)))
    for k, answer in enumerate(first):
        talk = [*asked, answer.message, *tool_of(answer, draw_fault(dice))]
        yield Send(9.0 + 0.1 * k, ask(*talk, tools=tools), f"{matter.wrong} {k}", headers=key)
    return []


def several_choices(dice: random.Random) -> Case:
    matter, agent, clock = draw_matter(dice), draw_agent(dice), Clock(dice, 20)
    for _ in range(dice.randint(2, 3)):
        yield Send(clock.wait(), ask(agent, user(matter.question), n=dice.randint(2, 4)), matter.wrong)
    return []


def openai_retry(dice: random.Random) -> Case:
    """The answer was lost on the way to the client, which sends the same again."""
    matter, agent, clock, key = draw_matter(dice), draw_agent(dice), Clock(dice, 8), name_session(dice)
    agent_of = dice.choice(("OpenAI/Python 3.54.0", "AsyncOpenAI/Python 2.9.1", "OpenAI/JS 6.1.0"))
    for k in range(dice.randint(2, 4)):
        headers = {**key, "x-stainless-retry-count": str(k), "User-Agent": agent_of}
        yield Send(clock.wait(), ask(agent, user(matter.question)), f"{matter.wrong} ({k})", headers=headers)
    return []


def openai_retry_after_failure(dice: random.Random) -> Case:
    matter, agent, clock, key = draw_matter(dice), draw_agent(dice), Clock(dice, 3), name_session(dice)
    failures = dice.randint(1, 2)
    for k in range(failures):
        retry = {"x-stainless-retry-count": str(k)} if k else {}
        yield Send(clock.wait(), ask(agent, user(matter.question)), status=500, headers=key | retry)
    retry = {"x-stainless-retry-count": str(failures)}
    yield Send(clock.wait(), ask(agent, user(matter.question)), matter.wrong, headers=key | retry)
    return []


def anthropic_retry(dice: random.Random) -> Case:
    matter, clock = draw_matter(dice), Clock(dice, 12)
    who = {"user_id": f"user_{dice.getrandbits(64):x}_account_{name(dice)}_session_{name(dice)}"}
    prompt = str(draw_agent(dice)["content"])
    body = {"system": prompt, "messages": [user(matter.question)], "max_tokens": 64, "metadata": who}
    for k in range(dice.randint(2, 3)):
        yield Send(clock.wait(), dict(body), matter.wrong, headers={"x-stainless-retry-count": str(k)}, path=MESSAGES)
    return []


def claude_code_quota_and_titles(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    clock, tools = Clock(dice, 20), ("Bash", "Read", "Edit", "Grep")[: dice.randint(2, 4)]
    common: Any = {"headers": headers, "path": MESSAGES}
    quota = {"messages": [user("quota")], "max_tokens": 1, "metadata": metadata}
    yield Send(clock.wait(2), quota, "ok", **common)
    words = draw_order(dice)
    topic = "Analyze if this message indicates a new conversation topic. If it does, extract a 2-3 word title."
    yield Send(
        clock.wait(2), code_body(metadata, user(words), prompt=topic, tools=()), '{"isNewTopic": true}', **common
    )
    talk = [user(words)]
    for k in range(dice.randint(2, 4)):
        calls = ((dice.choice(tools), json.dumps({"command": f"step {k}"})),)
        body = code_body(metadata, *talk, prompt=CODE, tools=tools)
        answer = yield Send(clock.wait(), body, calls=calls, **common)
        talk = [*talk, answer.message, results_of(answer, draw_fault(dice))]
    yield Send(clock.wait(), code_body(metadata, *talk, prompt=CODE, tools=tools), "It passes now.", **common)
    title = "Please write a 5-10 word title for the following conversation:\n\n" + words
    body = code_body(metadata, user(title), prompt="You summarise.", tools=())
    yield Send(clock.wait(), body, "Fixing a test", **common)
    return []


def claude_code_subagent(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    headers, clock = headers | {"x-claude-code-agent-id": name(dice)}, Clock(dice, 30)
    talk = [draw_told(dice)]
    for k, said in enumerate((draw_correction(dice, "in src"), dice.choice(_PRAISE), "")):
        body = code_body(metadata, *talk, prompt="You are an agent for Claude Code.")
        answer = yield Send(clock.wait(), body, f"Found {k}.", headers=headers, path=MESSAGES)
        talk = [*talk, answer.message, user(said)]
    return []


def claude_code_compaction(dice: random.Random) -> Case:
    metadata, headers = claude_headers(dice)
    clock = Clock(dice, 30)
    common: Any = {"headers": headers, "path": MESSAGES}
    talk = [draw_told(dice)]
    answer = yield Send(clock.wait(1), code_body(metadata, *talk, prompt=CODE), "Done.", **common)
    talk = [*talk, answer.message]
    said = draw_correction(dice, dice.randrange(10**6))
    yield Send(clock.wait(5), code_body(metadata, *talk, user(SUGGEST), prompt=CODE), said, **common)
    summary = user("Your task is to create a detailed summary of the conversation so far. It was wrong, then right.")
    yield Send(clock.wait(), code_body(metadata, *talk, summary, prompt=CODE), f"A summary: {said}", **common)
    begun = f"This session is being continued from a previous conversation that ran out of context. {said}"
    yield Send(clock.wait(), code_body(metadata, user(begun), prompt=CODE), "Going on.", **common)
    return []


def opencode_title(dice: random.Random) -> Case:
    key = {"x-session-affinity": f"ses_{name(dice)}", "User-Agent": f"opencode/1.18.{dice.randrange(40)}"}
    words, clock, tools = draw_told(dice), Clock(dice, 8), dice.choice((("read", "bash"), ("grep", "edit", "bash")))
    title = [system(TITLE), user("Generate a title for this conversation:\n"), words]
    yield Send(0.0, ask(*title), "Explaining a function", headers=key)
    talk = [system(OPENCODE), words]
    for k in range(dice.randint(1, 3)):
        calls = ((dice.choice(tools), json.dumps({"path": f"a{k}"})),)
        answer = yield Send(clock.wait(), ask(*talk, tools=tools), calls=calls, headers=key)
        talk = [*talk, answer.message, *tool_of(answer, draw_fault(dice))]
    yield Send(clock.wait(), ask(*talk, tools=tools), "It adds numbers.", headers=key)
    return []


def open_webui_tasks(dice: random.Random) -> Case:
    """Errands behind a chat that nobody goes on with; the client forwards the chat's name, or does not."""
    key = dice.choice(({}, {"X-OpenWebUI-Chat-Id": name(dice), "X-OpenWebUI-User-Id": name(dice)}))
    matter, clock = draw_matter(dice), Clock(dice, 2.5)
    answer = yield Send(clock.wait(), ask(user(matter.question)), matter.wrong, headers=key)
    history = f"<chat_history>\nUSER: {matter.question}\nASSISTANT: {answer.message['content']}\n</chat_history>"
    for task in dice.sample(TASKS, dice.randint(1, 3)):
        words = f"### Task:\n{task} for the chat.\n### Chat History:\n{history}"
        yield Send(clock.wait(), ask(user(words)), "{}", headers=key)
    return []


def smolagents_code(dice: random.Random) -> Case:
    talk = [system("You are an expert assistant who can solve any task using code blobs.")]
    talk, clock = [*talk, user(f"New task:\n{draw_order(dice)}")], Clock(dice, 12)
    for k in range(dice.randint(2, 5)):
        answer = yield Send(clock.wait(), ask(*talk), f"Thought: next.\n<code>\nprint({k % 2})\n</code>")
        told = dice.choice((str(k % 2), draw_fault(dice), draw_correction(dice, k)))
        seen = {"type": "text", "text": f"Observation:\nExecution logs:\n{told}\nLast output from code snippet:\nNone"}
        talk = [*talk, answer.message, {"role": "user", "content": [seen]}]
    yield Send(clock.wait(), ask(*talk), "<code>final_answer(4)</code>")
    return []


def smolagents_errors(dice: random.Random) -> Case:
    talk = [system("You are an expert assistant who can solve any task using tool calls.")]
    talk, clock = [*talk, user(f"New task:\n{draw_order(dice)}")], Clock(dice, 15)
    for k in range(dice.randint(2, 4)):
        answer = yield Send(clock.wait(), ask(*talk), f"Action: search {k}")
        error = (
            f"Error:\n{dice.choice((draw_fault(dice), draw_correction(dice, k)))}\nNow let's retry: take care not to "
            "repeat previous errors! If you have retried several times, try a completely different approach.\n"
        )
        talk = [*talk, answer.message, user(error)]
    yield Send(clock.wait(), ask(*talk), "42")
    return []


def react_in_words(dice: random.Random) -> Case:
    key, clock = dice.choice(({}, name_session(dice))), Clock(dice, 40)
    talk = [system("Answer with Thought, Action, Observation."), draw_told(dice)]
    for k in range(dice.randint(2, 4)):
        answer = yield Send(clock.wait(), ask(*talk), f"Thought: look.\nAction: search[{k}]", headers=key)
        told = dice.choice((draw_correction(dice, k), draw_fault(dice), dice.choice(_PRAISE)))
        talk = [*talk, answer.message, user(f"Observation: {told}")]
    yield Send(clock.wait(), ask(*talk), "Final Answer: nobody", headers=key)
    return []


def mini_swe_agent(dice: random.Random) -> Case:
    talk = [system("You are a helpful assistant that can interact with a shell."), draw_told(dice)]
    clock = Clock(dice, 25)
    for k in range(dice.randint(2, 4)):
        answer = yield Send(clock.wait(), ask(*talk), "THOUGHT: list.\n```bash\nls\n```")
        told = dice.choice(("wrong", draw_fault(dice), draw_correction(dice, k)))
        talk = [*talk, answer.message, user(f"<returncode>{k}</returncode>\n<output>\n{told}\n</output>")]
    yield Send(clock.wait(), ask(*talk), "```bash\necho COMPLETE\n```")
    return []


def cline_results(dice: random.Random) -> Case:
    talk = [system("You are Cline, a highly skilled software engineer."), user(f"<task>\n{draw_order(dice)}\n</task>")]
    clock, tool = Clock(dice, 20), dice.choice(("read_file", "execute_command", "search_files"))
    for k in range(dice.randint(2, 4)):
        answer = yield Send(clock.wait(), ask(*talk), f"<{tool}><path>{k}.py</path></{tool}>")
        told = [f"[{tool} for '{k}.py'] Result:", draw_correction(dice, k), "<environment_details>\nx"]
        parts = [{"type": "text", "text": one} for one in told]
        talk = [*talk, answer.message, {"role": "user", "content": parts}]
    yield Send(clock.wait(), ask(*talk), "<attempt_completion/>")
    return []


def parser_retries(dice: random.Random) -> Case:
    talk, clock = [user(f"Extract the user from: Jason is {dice.randrange(10**6)}. {draw_order(dice)}")], Clock(dice, 7)
    retries = [
        "Validation Error found:\n1 validation error for User\nRecall the function correctly, fix the errors",
        "1 validation error:\nage: wrong type\n\nFix the errors and try again.",
        f"Validation feedback:\n{draw_correction(dice, 'a number')}",
    ]
    for k, retry in enumerate(dice.sample(retries, dice.randint(1, 3))):
        answer = yield Send(clock.wait(), ask(*talk), f'{{"age": "x{k}"}}')
        talk = [*talk, answer.message, user(retry)]
    yield Send(clock.wait(), ask(*talk), '{"age": 25}')
    return []


def critic_and_writer(dice: random.Random) -> Case:
    """Two agents under one name; what the critic's model answers is told to the writer as a user's words."""
    key, clock, matter = dice.choice(({}, name_session(dice))), Clock(dice, 15), draw_matter(dice)
    talk = [system("You write answers. Be exact and polite to everybody."), user(matter.question)]
    for k in range(dice.randint(1, 3)):
        answer = yield Send(clock.wait(), ask(*talk), f"{matter.wrong} {'!' * k}", headers=key)
        judged = [system("You review what a colleague wrote: say what is wrong."), user(answer.message["content"])]
        words = draw_correction(dice, f"{matter.right} ({k})")
        said = yield Send(clock.wait(), ask(*judged), words, headers=key)
        talk = [*talk, answer.message, user(said.message["content"])]
    yield Send(clock.wait(), ask(*talk), matter.right, headers=key)
    return []


def played_user(dice: random.Random) -> Case:
    """A model plays the user through the same gateway, at a person's pace; nothing has a name."""
    matter, clock = draw_matter(dice), Clock(dice, 20)
    talk = [draw_agent(dice), user(matter.question)]
    play = [system(f"You are a customer of a shop, number {dice.randrange(10**6)}. React to what you are told.")]
    for k, words in enumerate((draw_correction(dice, f"{matter.right}, I think"), dice.choice(_PRAISE))):
        answer = yield Send(clock.wait(), ask(*talk), f"{matter.wrong} {'!' * k}")
        play = [*play, user(answer.message["content"])]
        said = yield Send(clock.wait(), ask(*play), words)
        play = [*play, said.message]
        talk = [*talk, answer.message, user(said.message["content"])]
    yield Send(clock.wait(), ask(*talk), "Bye.")
    return []


def doubt_at_once(dice: random.Random) -> Case:
    """A test of firmness: the doubt is there before anybody could have read the answer."""
    matter, key, at_s = draw_matter(dice), dice.choice(({}, name_session(dice))), 0.0
    talk = [draw_agent(dice), user(matter.question)]
    for k in range(dice.randint(2, 4)):
        answer = yield Send(at_s, ask(*talk), f"{matter.wrong} {'!' * k}", headers=key)
        talk = [*talk, answer.message, user(draw_correction(dice, k))]
        at_s += dice.uniform(1.1, 2.8)  # the answer takes one of them
    return []


def few_shot_labels(dice: random.Random) -> Case:
    shots = [system("Label: good or bad."), user(dice.choice(_PRAISE)), {"role": "assistant", "content": "good"}]
    shots += [user(draw_correction(dice, dice.randrange(10**6))), {"role": "assistant", "content": "bad"}]
    clock = Clock(dice, 4)
    for _ in range(dice.randint(2, 5)):
        words = dice.choice((f"{dice.choice(_PRAISE)} {dice.randrange(10**6)}", draw_correction(dice, dice.random())))
        yield Send(clock.wait(), ask(*shots, user(words)), "good")
    return []


def searched_tree(dice: random.Random) -> Case:
    """Several continuations of one state, one after the other."""
    matter, clock = draw_matter(dice), Clock(dice, 8)
    root = [draw_agent(dice), user(matter.question)]
    answer = yield Send(clock.wait(), ask(*root), matter.wrong)
    for k in range(dice.randint(2, 4)):
        step = user(f"Branch {k}: think about it from the side {draw_order(dice)}")
        yield Send(clock.wait(), ask(*root, answer.message, step), f"Branch {k}.")
    return []


def failing_tools(dice: random.Random) -> Case:
    key, clock, tools = name_session(dice), Clock(dice, 15), draw_tools(dice)
    talk: list[Json] = [draw_agent(dice), draw_told(dice)]
    for k in range(dice.randint(2, 4)):
        calls = ((dice.choice(tools), json.dumps({"try": k})),)
        answer = yield Send(clock.wait(), ask(*talk, tools=tools), calls=calls, headers=key)
        talk = [*talk, answer.message, *tool_of(answer, draw_fault(dice))]
    yield Send(clock.wait(), ask(*talk, tools=tools), "It cannot be done.", headers=key)
    return []


MACHINES: Kinds = {
    case.__name__: case
    for case in (
        eval_loop, cron_without_a_name, cron_with_a_name, cron_of_a_user, cron_that_remembers, health_check,
        parallel_attempts, several_choices, openai_retry, openai_retry_after_failure, anthropic_retry,
        claude_code_quota_and_titles, claude_code_subagent, claude_code_compaction, opencode_title, open_webui_tasks,
        smolagents_code, smolagents_errors, react_in_words, mini_swe_agent, cline_results, parser_retries,
        critic_and_writer, played_user, doubt_at_once, few_shot_labels, searched_tree, failing_tools,
    )
}  # fmt: skip
