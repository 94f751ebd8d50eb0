"""What a conversation is known by, whatever clients change on the way; and whose it is."""

import time

import pytest

from tentalis.core.conversations.machine import is_errand, is_observation
from tentalis.core.conversations.threads import Head, is_same_agent, name_thread, read_head
from tentalis.core.conversations.turns import goes_on, read_words


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def test_a_thread_is_found_again_by_the_answer_as_clients_repeat_it() -> None:
    asked = [{"role": "system", "content": "It is noon."}, user("Hi")]
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": 2}'}}
    ended = name_thread("s", asked, {"role": "assistant", "content": None, "tool_calls": [call]}).ended
    again = {"id": "other", "type": "function", "function": {"name": "f", "arguments": '{"a":2,"b":1}'}}
    repeated = {"role": "assistant", "content": "<think>hm</think>", "tool_calls": [again], "refusal": None}
    later = [{"role": "system", "content": "It is one."}, user([{"type": "text", "text": " Hi "}]), repeated]
    assert name_thread("s", [*later, {"role": "tool", "content": "3"}], None).begun == ended
    assert name_thread("other", later, None).begun != ended
    assert name_thread("s", [*asked, {"role": "assistant", "content": "Ho"}], None).begun != ended
    assert name_thread("s", asked, None) == ("", "")


def test_an_agents_prompt_may_tell_the_time_and_another_agents_words_are_others() -> None:
    def head(text: str, *tools: str) -> Head:
        made = [{"type": "function", "function": {"name": tool}} for tool in tools]
        return read_head([{"role": "system", "content": text}, user("x")], made)

    shop = "You are the support agent of a shop. Be brief, and look orders up."
    same = is_same_agent(head(f"{shop} It is 10:14."), head(f"{shop} It is 11:58. The user likes tea."))
    assert same
    assert not is_same_agent(head(shop), head("You are a title generator."))
    assert not is_same_agent(head(shop, "a", "b"), head(shop, "c", "d"))
    assert is_same_agent(head(shop, "a", "b"), head(shop))


@pytest.mark.parametrize(
    ("text", "is_machines"),
    [
        ("Observation: 4", True),
        ("<tool_response>\n4\n</tool_response>", True),
        ("[read_file for 'a.py'] Result:\nno", True),
        ("Error:\nwrong\nNow let's retry: take care not to repeat previous errors!", True),
        ("1 validation error for User", True),
        ("No, that's wrong. Tool output is cut.", False),
        ("Observations show that you are wrong", False),
        ("[attempt_completion] Result:\n<user_message>No, wrong</user_message>", False),
        ("Write a title for my blog", False),
    ],
)
def test_what_tools_and_parsers_say_is_no_persons_word(text: str, is_machines: bool) -> None:
    assert is_observation(text) == is_machines
    assert bool(read_words(user(text))) != is_machines


def test_words_beside_a_result_or_behind_an_interruption_are_the_persons() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": "42"}
    assert read_words(user([result, {"type": "text", "text": "No, wrong."}])) == "No, wrong."
    assert read_words(user("[Request interrupted by user]\nNo, wrong.")) == "No, wrong."
    assert read_words(user([{"type": "text", "text": "[x for 'a'] Result:"}, {"type": "text", "text": "wrong"}])) == ""
    assert goes_on([user("Go"), {"role": "assistant", "content": "f()"}, user("Observation: 4")])


def test_a_clients_errands_are_known_and_a_persons_requests_are_none() -> None:
    assert is_errand([{"role": "system", "content": "You are a title generator. Be brief."}, user("Sum this")])
    assert is_errand([user("### Task:\nGenerate a concise, 3-5 word title")])
    assert is_errand([user("Hi"), {"role": "assistant", "content": "Ho"}, user("[SUGGESTION MODE: what next?]")])
    assert is_errand([user("quota")])
    assert is_errand([{"role": "system", "content": "You are a context summarization assistant. Read."}, user("…")])
    assert is_errand([user("### Task:\nSuggest 3-5 relevant follow-up questions")])
    assert is_errand([user("### Task:\nGenerate a title"), {"role": "assistant", "content": "{"}])
    assert not is_errand([user("### Task:\nTranslate this program into Java.")])
    assert not is_errand([user("### Task:\nRespond to the user query using the provided context. What is it?")])
    assert not is_errand([user("Quota"), {"role": "assistant", "content": "Of what?"}, user("Of lamps.")])
    assert not is_errand([user("What is my quota of lamps?")])
    assert not is_errand([user("Generate a title for my book"), {"role": "assistant", "content": "Lamps"}])
    assert not is_errand([])


def test_reading_words_takes_time_in_step_with_their_length() -> None:
    for text in ("<system-reminder>" * 4_000, "<think>" * 9_000, "[" * 64_000, "Runtime: a=" * 6_000):
        began = time.process_time()
        name_thread("s", [user(text), {"role": "assistant", "content": text}], None)
        assert time.process_time() - began < 2.0
