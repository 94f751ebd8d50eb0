"""`graders_beside_peer.py PEER CASES OUT`, by the peer's own Python: how right its scorers find each probe, by name."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Score = Callable[[Mapping[str, Any], str], float]
"""(case, answer) -> in [0, 1]."""


def list_inspect() -> dict[str, tuple[str, Score]]:
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Target, answer, exact, f1, includes, match
    from inspect_ai.solver import TaskState

    def ask(scorer: Any) -> Score:
        def score(case: Mapping[str, Any], text: str) -> float:
            state = TaskState(
                model="none/none", sample_id=1, epoch=1, input=case["prompt"], messages=[],
                output=ModelOutput.from_content("none/none", text),
            )  # fmt: skip
            said = asyncio.run(scorer(state, Target(case["reference"])))
            value = said.value if said is not None else 0.0
            return {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}[value] if isinstance(value, str) else float(value)

        return score

    return {
        "answer(letter)": ("choice", ask(answer("letter"))),
        "match(numeric)": ("number", ask(match(numeric=True))),
        "exact": ("exact", ask(exact())),
        "includes": ("exact", ask(includes())),
        "f1": ("f1", ask(f1())),
    }


def list_lm_eval() -> dict[str, tuple[str, Score]]:
    from lm_eval.api.metrics import exact_match_hf_evaluate
    from lm_eval.filters.extraction import MultiChoiceRegexFilter, RegexFilter
    from lm_eval.tasks.hendrycks_math.utils import process_results

    def extract(made: Any) -> Score:
        def score(case: Mapping[str, Any], text: str) -> float:
            [[found]] = [list(one) for one in made.apply([[text]], [{"choices": case.get("choices", [])}])]
            wanted = f"({case['reference']})" if isinstance(made, MultiChoiceRegexFilter) else case["reference"]
            return match([found], [wanted])

        return score

    def match(found: list[str], wanted: list[str]) -> float:
        said = exact_match_hf_evaluate(predictions=found, references=wanted, ignore_case=True, regexes_to_ignore=[","])
        return float(said["exact_match"])

    def score_hendrycks(case: Mapping[str, Any], text: str) -> float:
        bare = text.replace("$\\boxed{", "$").replace("}$", "$")  # its prompt asks for an answer between dollars
        return float(process_results({"solution": f"\\boxed{{{case['reference']}}}"}, [bare])["exact_match"])

    letters = {"regex_pattern": r"(\([A-Z]\))", "ignore_case": True, "ignore_punctuation": True}
    return {
        "multi_choice_regex": ("choice", extract(MultiChoiceRegexFilter(**letters))),
        "gsm8k strict-match": ("number", extract(RegexFilter(r"#### (\-?[0-9\.\,]+)"))),
        "gsm8k flexible-extract": ("number", extract(RegexFilter(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1))),
        "exact_match": ("exact", lambda case, text: match([text], [case["reference"]])),
        "hendrycks_math": ("math", score_hendrycks),
    }


def list_verifiers() -> dict[str, tuple[str, Score]]:
    from verifiers import MathRubric

    rubric = MathRubric()

    def score(case: Mapping[str, Any], text: str) -> float:
        completion: Any = [{"role": "assistant", "content": text}]
        return float(asyncio.run(rubric.correct_answer(rubric.parser, completion, case["reference"])))

    return {"MathRubric": ("math", score)}


PEERS = {"inspect_ai": list_inspect, "lm-eval": list_lm_eval, "verifiers": list_verifiers}


def main(peer: str, cases: str, out: str) -> None:
    told = json.loads(Path(cases).read_text())
    found = []
    for name, (kind, score) in PEERS[peer]().items():
        of_kind = [case for case in told if case["kind"] == kind]
        shares = {
            probe: sum(score(case, case["probes"][probe]) for case in of_kind) / len(of_kind)
            for probe in of_kind[0]["probes"]
        }
        found.append({"kind": kind, "scorer": name, "shares": shares})
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
