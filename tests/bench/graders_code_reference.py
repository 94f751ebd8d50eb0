"""References that graders of instructions and calls are compared with: a process in an environment that holds them.

A question is a line of JSON, and so is its answer. Nothing of ours is imported. What the references import beyond
themselves, and what none of their rules uses, is left out.
"""

import copy
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any


def bare(name: str, **held: Any) -> None:
    """A module in the place of one that is not installed or wants what is not."""
    module = types.ModuleType(name)
    vars(module).update(held)
    sys.modules[name] = module


def bare_packages(*names: str) -> None:
    """Packages without what their `__init__` imports, outer ones first."""
    spec = importlib.util.find_spec(names[0])
    assert spec
    assert spec.submodule_search_locations
    above = Path(spec.submodule_search_locations[0]).parent
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(above / name.replace(".", "/"))]
        sys.modules[name] = module


def put_punkt(place: Path) -> None:
    """NLTK's tables of Punkt's English model, out of the package that brings them."""
    from punkt.data import english

    directory = place / "tokenizers" / "punkt_tab" / "english"
    directory.mkdir(parents=True, exist_ok=True)
    tables = {
        "abbrev_types.txt": sorted(english.ABBREV_TYPES),
        "sent_starters.txt": sorted(english.SENT_STARTERS),
        "collocations.tab": ["\t".join(pair) for pair in sorted(english.COLLOCATIONS)],
        "ortho_context.tab": [f"{word}\t{flags}" for word, flags in english.ORTHO_CONTEXT.items()],
    }
    for name, lines in tables.items():
        (directory / name).write_text("\n".join(lines), encoding="utf-8")


def open_ifeval(place: Path) -> Any:
    """Answers (name, arguments, answer): strict and loose verdict."""
    put_punkt(place)
    os.environ["NLTK_DATA"] = str(place)
    import langdetect

    langdetect.DetectorFactory.seed = 0
    bare_packages("lm_eval", "lm_eval.tasks")
    utils = importlib.import_module("lm_eval.tasks.ifeval.utils")

    def ask(name: str, arguments: Any, answer: str) -> Any:
        told = utils.InputExample(0, [name], "", [arguments])
        strict = utils.test_instruction_following_strict(told, answer)
        loose = utils.test_instruction_following_loose(told, answer)
        return [strict.follow_all_instructions, loose.follow_all_instructions]

    return ask


class Plain:
    """A model that calls functions by their own names."""

    underscore_to_dot = False


class Models(dict[str, Any]):
    def __missing__(self, name: str) -> Plain:
        return Plain()


def open_bfcl(place: Path) -> Any:
    """Answers what a checker is asked: calls, turns or told."""
    bare("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING=Models())
    top = "bfcl_eval.eval_checker"
    check_calls = importlib.import_module(f"{top}.ast_eval.ast_checker").ast_checker
    check_turns = importlib.import_module(f"{top}.multi_turn_eval.multi_turn_checker")
    execute = importlib.import_module(f"{top}.multi_turn_eval.multi_turn_utils").execute_multi_turn_func_call
    check_told = importlib.import_module(f"{top}.agentic_eval.agentic_checker").agentic_checker
    languages = importlib.import_module("bfcl_eval.constants.enums").Language
    count = 0

    def ask(kind: str, *given: Any) -> Any:
        if kind == "calls":
            functions, calls, wanted, language, category = given
            told = check_calls(functions, calls, wanted, languages[language.upper()], category, "plain")
            return told["valid"]
        if kind == "told":
            return check_told(*given)["valid"]
        nonlocal count
        count += 1
        entry, played, wanted = given
        valid = (
            len(played) == len(wanted)
            and check_turns.multi_turn_checker(
                copy.deepcopy(played), copy.deepcopy(wanted), entry, entry["id"].rsplit("_", 1)[0], f"m{count}"
            )["valid"]
        )
        turns = [play(execute, entry, [steps], f"p{count}") for steps in played]
        right = [play(execute, entry, [[calls]], f"w{count}") for calls in wanted]
        return {"valid": valid, "played": turns, "wanted": right}

    return ask


def play(execute: Any, entry: Any, turn: Any, name: str) -> Any:
    """What the calls of a turn answer, and what is then so, as data."""
    results, instances = [], {}
    is_long = "long_context" in entry["id"]
    for steps in turn:
        for calls in steps or [[]]:
            told, instances = execute(
                func_call_list=calls, initial_config=entry["initial_config"], test_entry_id=entry["id"],
                involved_classes=entry["involved_classes"], model_name=name, long_context=is_long, is_evaL_run=True,
            )  # fmt: skip
            results += told
    return {"results": results, "state": {key: to_data(one) for key, one in instances.items()}}


def to_data(value: Any) -> Any:
    """Whatever two objects are compared by, as data."""
    if isinstance(value, dict):
        return {str(key): to_data(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_data(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "contents"):
        return {"name": value.name, "contents": to_data(value.contents)}
    if hasattr(value, "content"):
        return {"name": value.name, "content": value.content}
    if hasattr(value, "__dict__"):
        return {key: to_data(one) for key, one in vars(value).items() if not key.startswith("_")}
    return repr(value)


def main() -> None:
    part, place = sys.argv[1:]
    ask = {"ifeval": open_ifeval, "bfcl": open_bfcl}[part](Path(place))
    tells, sys.stdout = sys.stdout, sys.stderr  # what references print is nobody's answer
    for line in sys.stdin:
        try:
            said: Any = {"value": ask(*json.loads(line))}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"[:300]}
        tells.write(json.dumps(said) + "\n")
    tells.flush()


if __name__ == "__main__":
    main()
