"""References that graders of instructions and calls are compared with: a process in an environment that holds them.

A question is a line of JSON, and so is its answer. Nothing of ours is imported. What the references import beyond
themselves, and what none of their rules uses, is left out.
"""

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


def main() -> None:
    part, place = sys.argv[1:]
    ask = {"ifeval": open_ifeval}[part](Path(place))
    for line in sys.stdin:
        try:
            said: Any = {"value": ask(*json.loads(line))}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"[:300]}
        sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
