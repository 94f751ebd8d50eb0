"""Probes of the catalogue by our graders, and by the scorers that inspect_ai, lm-eval and verifiers have for the same:
what is right, nothing, garbage, a refusal, and what is right for another item."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

PROBES: Final = ("right", "empty", "garbage", "refusal", "of another item")
GARBAGE: Final = "Qua lorem 7731 zzk; blip blop."
REFUSAL: Final = "I am sorry, but I cannot answer that question."
MOST_GARBAGE: Final = 0.02
"""Share that garbage may earn."""
ITEMS: Final = 24
LETTERS: Final = "ABCD"


def make_cases() -> list[dict[str, Any]]:
    """Items of five kinds, each with its probes."""
    words = ["amber", "birch", "cobalt", "dahlia", "ember", "fjord"]
    made: dict[str, list[tuple[str, str]]] = {
        "choice": [
            (LETTERS[n % 4], f"The answer is ({LETTERS[n % 4]}).\nANSWER: {LETTERS[n % 4]}") for n in range(ITEMS)
        ],
        "number": [(str(31 + 7 * n), f"That makes {31 + 7 * n}.\n#### {31 + 7 * n}") for n in range(ITEMS)],
        "exact": [(f"{words[n % 6]} {n}",) * 2 for n in range(ITEMS)],
        "f1": [(f"{words[n % 6]} {words[n // 6]}{n}",) * 2 for n in range(ITEMS)],
        "math": [(f"\\frac{{{n + 2}}}{{{n + 3}}}", f"$\\boxed{{\\frac{{{n + 2}}}{{{n + 3}}}}}$") for n in range(ITEMS)],
    }
    return [
        {
            "kind": kind,
            "prompt": f"Question {place}?" + (" (A) one (B) two (C) three (D) four" if kind == "choice" else ""),
            "choices": ["one", "two", "three", "four"],
            "reference": reference,
            "probes": dict(zip(PROBES, (right, "", GARBAGE, REFUSAL, some[(place + 1) % ITEMS][1]), strict=True)),
        }
        for kind, some in made.items()
        for place, (reference, right) in enumerate(some)
    ]


def grade_ours(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from tests.apps.evals.graders.asking import ask_grader

    found = []
    for kind in dict.fromkeys(case["kind"] for case in cases):
        of_kind = [case for case in cases if case["kind"] == kind]
        shares = {
            probe: sum(ask_grader(kind, one["reference"], one["probes"][probe] or None).value or 0.0 for one in of_kind)
            / len(of_kind)
            for probe in PROBES
        }
        found.append({"kind": kind, "tool": "tentalis", "scorer": kind, "shares": shares})
    return found


def find_misses(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What our graders take for right that is not, or not for right that is."""
    return [
        f"{row['scorer']}: {probe} earns {share:.2f}"
        for row in rows
        if row["tool"] == "tentalis"
        for probe, share in row["shares"].items()
        if (share < 1.0 if probe == "right" else share > (MOST_GARBAGE if probe == "garbage" else 0.0))
    ]


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    print(f"{'kind':<8} {'tool':<12} {'scorer':<24}" + "".join(f"{probe:>17}" for probe in PROBES))
    for row in sorted(rows, key=lambda row: row["kind"]):
        shares = "".join(f"{row['shares'][probe]:>17.2f}" for probe in PROBES)
        print(f"{row['kind']:<8} {row['tool']:<12} {row['scorer']:<24}{shares}")
