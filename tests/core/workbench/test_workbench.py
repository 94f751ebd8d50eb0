"""The workbench's company, tools, tasks and oracle: what is right, what is not, and what nobody may do."""

import json
from copy import deepcopy
from itertools import combinations
from random import Random
from typing import Any

import pytest

from tentalis.core.canon import content_hash
from tentalis.core.workbench import episode
from tentalis.core.workbench.company import make_company
from tentalis.core.workbench.figures import measure, measure_habit_slope
from tentalis.core.workbench.habits import HABITS, find_habit, parse_hints
from tentalis.core.workbench.solving import PlannedCall, UnsolvableError, solve
from tentalis.core.workbench.tasks import (
    FAMILIES,
    HELD_OUT_FAMILIES,
    SEQUENCE,
    TRAINED_FAMILIES,
    Task,
    WorkbenchError,
    is_held_out,
    make_sequence,
    make_task,
    parse_task,
)
from tentalis.core.workbench.tools import NAMESPACES, TOOLS, search_tools

REMIND = "Remind the vip Berg of the small bill."


def call(state: episode.State, tool: str, **arguments: Any) -> str:
    told = {name.rstrip("_"): value for name, value in arguments.items()}
    return episode.act(state, episode.CALL, json.dumps({"tool": tool, "args": told}))


def make(state: episode.State, planned: PlannedCall) -> str:
    return episode.act(state, episode.CALL, json.dumps({"tool": planned.tool, "args": planned.arguments}))


def play(task: Task, seed: int, choices: dict[str, str] | None = None) -> episode.State:
    state = episode.begin(task.text, seed)
    for one in solve(task, state["company"], choices).calls:
        make(state, one)
    return state


def test_the_company_has_at_least_48_tools_in_8_namespaces_with_twins_walls_limits_and_misleading_names() -> None:
    assert (len(TOOLS), len(NAMESPACES)) == (54, 8)
    deprecated = [one for one in TOOLS.values() if one.instead]
    assert len(deprecated) == 6
    assert all(TOOLS[one.instead].fields == one.fields for one in deprecated)
    walls = [name for name, one in TOOLS.items() if one.effect.__name__ == "_wall"]
    assert len(walls) == 7
    assert sum(one.most is not None for one in TOOLS.values()) >= 8
    assert {"bills.check", "files.open", "calendar.clear", "stock.count"} <= TOOLS.keys()


def test_each_option_belongs_to_one_habit_and_each_context_has_one_that_the_house_wants() -> None:
    options = [option for habit in HABITS.values() for option in habit.options]
    assert len(set(options)) == len(options)
    assert all(wanted in habit.options for habit in HABITS.values() for wanted in habit.house.values())
    assert (find_habit("owner"), find_habit("moon")) == ("copy", "")
    assert parse_hints("Please use owner, use moon and use post, use owner.") == ("use owner", "use post")


def test_a_task_is_read_back_from_its_text_and_what_is_none_is_refused_in_words() -> None:
    rng = Random(1)
    for _ in range(200):
        task = make_task(rng)
        assert parse_task(task.text) == task
        assert parse_task(f"{task.text} Hint: {', '.join(task.hints)}.") == task
    for text in ("Remind Berg.", "Meet the vip Zorro on Monday.", "Meet the client Berg on Monday.", ""):
        with pytest.raises(WorkbenchError, match="not a task of the workbench: found"):
            parse_task(text)


def test_three_families_and_one_text_in_five_of_the_others_are_held_out() -> None:
    rng = Random(2)
    assert len(FAMILIES) == 10
    assert len(HELD_OUT_FAMILIES) == 3
    assert all(is_held_out(make_task(rng, families=HELD_OUT_FAMILIES).text) for _ in range(50))
    found = [is_held_out(make_task(rng, families=TRAINED_FAMILIES).text) for _ in range(1_000)]
    assert 0.1 < sum(found) / len(found) < 0.3


def test_the_held_out_families_need_no_habit_that_the_others_do_not_need() -> None:
    rng = Random(3)
    known = {pair for _ in range(300) for pair in make_task(rng, families=TRAINED_FAMILIES).house.items()}
    wanted = {pair for _ in range(300) for pair in make_task(rng, families=HELD_OUT_FAMILIES).house.items()}
    assert wanted <= known


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_does_every_task_without_a_wasted_call(family: str) -> None:
    rng = Random(family)
    for seed in range(20):
        found = episode.judge(play(make_task(rng, families=[family]), seed))
        assert (found.is_done, found.wasted, found.faults, found.efficiency) == (True, 0, 0, 1.0), found
        assert found.missing == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_none_of_the_oracles_calls_can_be_left_out_but_by_who_guesses_a_number(family: str) -> None:
    task = make_task(Random(family), families=[family])
    whole = [one for one in solve(task, episode.begin(task.text, 5)["company"]).calls if one.changes]
    for size in range(len(whole)):
        for some in combinations(whole, size):
            state = episode.begin(task.text, 5)
            for one in some:
                make(state, one)
            assert not episode.judge(state).is_done


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_done_otherwise_than_the_house_does_it_is_not_done(family: str) -> None:
    task = make_task(Random(family), families=[family])
    for habit, wanted in task.house.items():
        for option in HABITS[habit].options:
            if option != wanted:
                found = episode.judge(state := play(task, 1, {habit: option}))
                assert (found.is_done, found.faults) == (False, 1), (habit, option)
                bad = [one["why"] for one in state["calls"] if one["score"] < 1.0]
                assert bad[0] == f"not as this house does it: wanted {wanted}, found {option}"


def test_whatever_else_is_changed_fails_the_task() -> None:
    rng = Random(4)
    values: dict[Any, Any] = {int: 12, str: "Berg"}
    changing = 0
    for tool in TOOLS.values():
        task = parse_task(REMIND)
        state = play(task, 3)
        told = {name: values.get(kind) or rng.choice(list(kind)) for name, kind in tool.fields.items()}  # type: ignore[arg-type]
        numbers = {"bill": "bills", "ticket": "tickets", "document": "documents"}
        told |= {name: int(next(iter(state["company"][table]))) for name, table in numbers.items() if name in told}
        told |= {name: "Kim" for name in ("name", "owner", "with") if name in told}
        told |= {"item": next(iter(state["company"]["goods"]))} if "item" in told else {}
        before = content_hash(state["company"])
        call(state, tool.name, **told)
        is_changed = content_hash(state["company"]) != before
        changing += is_changed
        assert episode.judge(state).is_done != is_changed, tool.name
        assert not is_changed or tool.changes, tool.name
    assert changing >= 24


def test_deprecated_twins_do_what_is_asked_and_leave_something_behind() -> None:
    for old in (one for one in TOOLS.values() if one.instead):
        assert f"Deprecated: use {old.instead}." in old.describe()
    state = episode.begin("File the contract of Berg.", 1)
    said = call(state, "files.find", client="Berg", kind="contract")
    call(state, "files.file", document=int(said.split()[1].rstrip(",")), to="legal")
    assert episode.judge(state).why == ["left: wanted nothing, found " + json.dumps(state["company"]["left"])]


def test_a_walled_tool_a_limit_and_an_unapproved_bill_refuse_and_change_nothing() -> None:
    state = episode.begin("Refund the big bill of Berg.", 1)
    before = content_hash(state["company"])
    assert call(state, "crm.erase", client="Berg") == "refused: you are not allowed to"
    bill = int(call(state, "bills.find", client="Berg", size="big").split()[1].rstrip(","))
    assert call(state, "bills.refund", bill=bill, as_="cash") == "refused: a big bill needs bills.approve first"
    for _ in range(2):
        call(state, "bills.find", client="Berg", size="big")
    said = call(state, "bills.find", client="Berg", size="big")
    assert said == "refused: bills.find was called 3 times already, no more for this task"
    assert content_hash(state["company"]) == before


BAD: list[tuple[str, str, str]] = [
    ("tools_run", "{}", "there is no function 'tools_run'"),
    ("tools_call", "moon", "wanted a JSON object, found 'moon'"),
    ("tools_call", "[1]", 'tools_call wants {"tool": text, "args": object}, found [1]'),
    ("tools_call", '{"tool": "mail.post"}', 'tools_call wants {"tool": text, "args": object}'),
    ("tools_call", '{"tool": "mail.post", "args": 3}', 'tools_call wants {"tool": text, "args": object}'),
    ("tools_call", '{"tool": "mail.moon", "args": {}}', "there is no tool 'mail.moon'"),
    ("tools_call", '{"tool": "mail.post", "args": {"to": "Berg"}}', "mail.post takes to, about, copy; found to"),
    ("tools_call", '{"tool": "mail.post", "args": {"to": "Berg", "about": "x", "copy": "all"}}',
     "copy: wanted owner or office or nobody, found all"),
    ("tools_call", '{"tool": "bills.check", "args": {"bill": true}}', "bill: wanted a number, found True"),
    ("tools_call", '{"tool": "mail.draft", "args": {"to": "Berg", "about": "\\ud800"}}',
     "about: wanted a text on one line"),
    ("tools_call", '{"tool": "bills.check", "args": {"bill": 7}}', "there is no bill 7"),
    ("tools_search", '{"query": 7}', 'tools_search wants {"query": text}, found {"query": 7}'),
    ("tools_search", json.dumps({"query": "x" * 2**20}), "wanted at most 1,000 characters, found 1,048,589"),
    ("tools_call", json.dumps({"tool": "mail.post", "args": {"to": "x" * 2**20}}), "wanted at most 1,000 characters"),
    ("tools_call", "[" * 900, "wanted a JSON object"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "words"), BAD)
def test_a_call_that_is_none_is_told_why_and_changes_nothing(function: str, arguments: str, words: str) -> None:
    state = episode.begin(REMIND, 1)
    before = deepcopy(state["company"])
    said = episode.act(state, function, arguments)
    assert said.startswith(f"refused: {words}")
    assert len(said) < 300
    assert state["company"] == before
    assert state["calls"][-1]["score"] == 0.0
    json.dumps(state)


def test_a_search_finds_the_tools_by_words_and_is_worth_something_once() -> None:
    assert [one.name for one in search_tools("refund bills")][:3] == ["bills.approve", "bills.refund", "bills.repay"]
    assert search_tools("zebra") == []
    state = episode.begin(REMIND, 1)
    words = json.dumps({"query": "bill client"})
    first, again = (episode.act(state, episode.SEARCH, words) for _ in range(2))
    assert first == again
    assert "bills.find: a bill of a client" in first
    assert [one["score"] for one in state["calls"]] == [episode.LOOKED_UP, 0.0]
    episode.act(state, episode.DESCRIBE, '{"tool": "people.ask"}')
    assert state["calls"][-1]["why"] == "nothing new that is needed"
    for _ in range(episode.MOST_SEARCHES):
        said = episode.act(state, episode.SEARCH, words)
    assert said.startswith("refused: tools_search was called 6 times already")


def test_the_same_prompt_and_seed_give_the_same_state_and_another_seed_another() -> None:
    hashes = [content_hash(episode.begin(REMIND, seed)) for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("seed", range(6))
def test_a_sequence_of_twenty_tasks_can_be_done_in_one_company_that_lasts(seed: int) -> None:
    tasks = make_sequence(seed)
    assert len(tasks) == SEQUENCE
    company = make_company(seed, [one.client for one in tasks if one.client], [one.item for one in tasks if one.item])
    for task in tasks:
        state = episode.begin(task.text, company=company)
        for one in solve(task, state["before"]).calls:
            make(state, one)
        assert episode.judge(state).is_done
        company = state["company"]


def test_a_task_that_an_earlier_mistake_made_impossible_is_not_done_and_says_so() -> None:
    state = episode.begin("Close the ticket of Berg.", 1)
    number = int(call(state, "tickets.find", client="Berg").split()[1].rstrip(","))
    call(state, "tickets.close", ticket=number)
    later = episode.begin("Close the ticket of Berg.", company=state["company"])
    with pytest.raises(UnsolvableError):
        solve(parse_task(later["prompt"]), later["company"])
    found = episode.judge(later)
    assert (found.is_done, found.optimum) == (False, None)
    assert found.why == ["the company is no more as the task needs it"]


def test_figures_are_means_over_episodes() -> None:
    task = parse_task("Close the ticket of Berg.")
    found = measure([episode.judge(play(task, 1)), episode.judge(play(task, 1, {"close": "done"}))])
    assert (found.success, found.efficiency, found.wasted, found.faults) == (0.5, 0.5, 0.5, 0.5)


def test_the_habit_slope_is_the_least_squares_line_and_its_interval_is_over_rows() -> None:
    slope, low, high = measure_habit_slope([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    assert (slope, low, high) == (-1.0, -1.0, -1.0)
    rng = Random(0)
    flat = [[float(rng.random() < 0.5) for _ in range(10)] for _ in range(40)]
    slope, low, high = measure_habit_slope(flat)
    assert low < 0 < high
    assert low <= slope <= high
    with pytest.raises(ValueError, match="at least 2 rows"):
        measure_habit_slope([[1.0, 2.0]])
