"""`make bench BENCH=graders`: our graders beside the libraries they must agree with, in an environment of their own.

    translation  BLEU, chrF, chrF++ and TER, sentences and corpora: sacrebleu, to 1e-9
    math         pairs of many forms: math-verify in its own main thread
    squad        exact match and F1: the official script, as transformers 4 carries it
    measures     ndcg, map, mrr, precision, recall, IoU: scikit-learn, to 1e-9
    diff         patches, whole and broken: git apply
    cheats       what answers nothing, and what names everything, by every grader of texts
    beside       probes that earn nothing, by our graders and by inspect_ai's, lm-eval's and verifiers' scorers
    speed        graded answers a second of a processor
    code, ifeval, bfcl  those that run programs or parse calls and instructions (`tests.bench.graders_code`)

One part by `ARGS="--part math"`, as often as wanted. Exit 1 when a bar is missed. Where we differ from a reference on
purpose, the case stands in `ON_PURPOSE` with its reason, is counted apart, and must differ as it says there.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import django

CACHE = Path(".cache/bench/graders")
WANTED = ("math-verify[antlr4-13-2]==0.9.0", "sacrebleu==2.6.0", "scikit-learn>=1.7", "transformers>=4.57,<5")
TOLERANCE = 1e-9
PER_SECOND = 2_000
SEED = 18


class Bar(NamedTuple):
    """What one comparison found.

    Args:
        agree, cases: how many of how many. worst: the largest difference of numbers; None where all is yes or no.
        examples: those that differ, a few of them.
        on_purpose: reason -> how often we differ for it; such a case counts as agreed on, and the rest does not.
    """

    part: str
    name: str
    agree: int
    cases: int
    worst: float | None = None
    examples: Sequence[Any] = ()
    on_purpose: Mapping[str, int] = {}

    @property
    def met(self) -> bool:
        return self.agree == self.cases > 0


class Difference(NamedTuple):
    """A case in which we differ from a reference on purpose."""

    reference: str
    answer: str
    ours: bool
    theirs: bool
    reason: str


LONG = "Thus $x = 7$. " + "It is so because it is so. " * 1_000
ON_PURPOSE: Sequence[Difference] = (
    Difference("\\frac{12}{4}", "\\dfrac{24}{8}", True, False, "one line of bare LaTeX is read as LaTeX"),
    Difference("x > 9", "(9, \\infty)", True, False, "the same, of an interval"),
    Difference("-5.1", "-5.1\\%", False, True, "the same: read as LaTeX, it is a hundredth of it"),
    Difference("7", LONG, False, True, "the last 20,000 characters are read: there an answer settles on something"),
)  # fmt: skip


def main() -> int:
    """Every part, or those asked for."""
    from tests.bench import graders_code

    names = [*PARTS, *graders_code.PARTS]
    parser = argparse.ArgumentParser(prog="tests.bench.graders")
    parser.add_argument("--part", action="append", choices=names, help="only this one; may be given again")
    options = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tentalis.settings.test"
    django.setup()
    asked = options.part or names
    peer = install(CACHE.resolve(), WANTED) if PARTS.keys() & set(asked) else Path()
    bars: list[Any] = []
    for name in asked:
        bars += PARTS[name](peer) if name in PARTS else graders_code.PARTS[name]()
    print_table(bars)
    told = [{**bar._asdict(), "met": bar.met} for bar in bars]
    print(json.dumps({"bench": "graders", "bars": told, "on_purpose": len(ON_PURPOSE)}))
    return 0 if all(bar.met for bar in bars) else 1


def install(place: Path, wanted: Sequence[str], alone: Sequence[str] = ()) -> Path:
    """Its Python, with what it wants installed once; `alone`: without what these depend on."""
    python, done, told = place / "bin" / "python", place / "installed", "\n".join((*alone, *wanted))
    if not done.exists() or done.read_text() != told:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *wanted], check=True)
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        done.write_text(told)
    return python


def ask_peer(python: Path, part: str, cases: Any, *, script: str = "graders_peer.py") -> Any:
    """What the references say."""
    told = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place) / "cases.json", Path(place) / "out.json"
        source.write_text(json.dumps(cases))
        argv = [str(python), "-P", str(Path(__file__).with_name(script)), part, str(source), str(out)]
        subprocess.run(argv, check=True, stderr=subprocess.DEVNULL, env={**os.environ, **told})
        return json.loads(out.read_text())


def print_table(bars: Sequence[Any]) -> None:
    print(f"{'part':<12} {'what':<86} {'agree':>17} {'worst':>9}")
    for bar in bars:
        worst = "" if bar.worst is None else f"{bar.worst:.1e}"
        share = f"{bar.agree:,} of {bar.cases:,}"
        print(f"{bar.part:<12} {bar.name:<86} {share:>17} {worst:>9} {'' if bar.met else 'MISSED'}")
        for example in () if bar.met else bar.examples[:5]:
            print(f"             {str(example)[:300]}")
        for reason, count in bar.on_purpose.items():
            print(f"             on purpose, {count} times: {reason}")
    for one in ON_PURPOSE:
        told = f"{one.reference!r} and {one.answer[:40]!r}: ours {one.ours}, theirs {one.theirs}"
        print(f"on purpose: {one.reason} ({told})")


def compare_numbers(part: str, name: str, pairs: Sequence[tuple[float, float, Any]]) -> Bar:
    """Pairs of ours and theirs, and what of."""
    apart = [(abs(ours - theirs), ours, theirs, what) for ours, theirs, what in pairs]
    wrong = [one for one in apart if not one[0] <= TOLERANCE]
    return Bar(part, name, len(apart) - len(wrong), len(apart), max(one[0] for one in apart), wrong[:5])


def _split(text: str) -> list[str]:
    return text.split()


# --- translation

WORDS = _split(
    "the a cat dog sat on mat , . ran quickly to house & 3.5 1,000"
    " e-mail don't (yes) \"quoted\" x-ray 7-9 über 日本 &amp; $5 a/b [z] Hello THE Cat 's"
    " <skipped> naïve — … ¿qué? 42% C++ foo_bar #tag"
)


def bench_translation(peer: Path) -> list[Bar]:
    from tentalis.core.graders import translation as ours

    rng = random.Random(SEED)
    sentences = [make_pair(rng, place) for place in range(1_000)]
    corpora: list[tuple[list[str], list[str]]] = []
    for size in (1, 2, 10, 40):
        drawn = [make_pair(rng, place + 1) for place in range(size)]
        corpora.append(([text for text, _ in drawn], [references[0] for _, references in drawn]))
    said = ask_peer(peer, "translation", {"sentences": sentences, "corpora": corpora})

    def bleu(text: str, references: Sequence[str], **how: Any) -> float:
        return ours.score_bleu(ours.count_bleu(text, references, **how))

    def chrf(text: str, references: Sequence[str], **how: Any) -> float:
        return ours.score_chrf(ours.count_chrf(text, references, **how))

    def ter(text: str, references: Sequence[str], **how: Any) -> float:
        return ours.score_ter(ours.count_ter(text, references, **how))

    scores: Mapping[str, Callable[[str, Sequence[str]], float]] = {
        "bleu": bleu,
        "bleu none": lambda text, references: bleu(text, references, tokenizer="none"),
        "bleu char": lambda text, references: bleu(text, references, tokenizer="char"),
        "bleu lowercase": lambda text, references: bleu(text, references, lowercase=True),
        "chrf": chrf,
        "chrf++": lambda text, references: chrf(text, references, word_order=2),
        "chrf lowercase": lambda text, references: chrf(text, references, lowercase=True),
        "ter": ter,
        "ter case": lambda text, references: ter(text, references, lowercase=False),
    }
    bars = [
        compare_numbers(
            "translation",
            f"{name}, sentences, sacrebleu",
            [(score(*case), theirs[name], case) for case, theirs in zip(sentences, said["sentences"], strict=True)],
        )
        for name, score in scores.items()
    ]
    whole: list[tuple[float, float, Any]] = []
    for (texts, references), theirs in zip(corpora, said["corpora"], strict=True):
        pairs = [(text, [reference]) for text, reference in zip(texts, references, strict=True)]
        first, *others = [ours.count_bleu(*pair) for pair in pairs]
        for counts in others:
            first = first + counts
        edits, *more = [ours.count_ter(*pair) for pair in pairs]
        for each in more:
            edits = edits + each
        pieces, *rest = [ours.count_chrf(*pair) for pair in pairs]
        for piece in rest:
            pieces = ours.add_chrf(pieces, piece)
        found = {
            "bleu": ours.score_bleu(first, is_sentence=False),
            "ter": ours.score_ter(edits),
            "chrf": ours.score_chrf(pieces),
        }
        whole += [(found[name], theirs[name], f"{name} of {len(texts)}") for name in found]
    return [*bars, compare_numbers("translation", "bleu, chrf, ter, corpora, sacrebleu", whole)]


def make_pair(rng: random.Random, place: int) -> tuple[str, list[str]]:
    """A text and its references: alike, moved about, or strangers."""
    length = 60 if place % 100 == 0 else rng.choice([1, 1, 2, 3, 5, 8, 12, 20, 30])
    reference = " ".join(rng.choice(WORDS) for _ in range(length))
    references = [reference, *(change_words(rng, reference) for _ in range(rng.randrange(3)))]
    stranger = " ".join(rng.choice(WORDS) for _ in range(length))
    text = rng.choice(
        [reference, change_words(rng, reference), change_words(rng, reference), stranger, "", reference[:-2]]
    )
    return text, references


def change_words(rng: random.Random, text: str) -> str:
    words = text.split()
    for _ in range(rng.randrange(6)):
        if not words:
            break
        place, kind = rng.randrange(len(words)), rng.randrange(4)
        if kind == 0:
            words[place] = rng.choice(WORDS)
        elif kind == 1:
            words.pop(place)
        elif kind == 2:
            words.insert(place, rng.choice(WORDS))
        else:
            moved = words[place : place + rng.randrange(1, 5)]
            del words[place : place + len(moved)]
            target = rng.randrange(len(words) + 1)
            words[target:target] = moved
    return " ".join(words)


# --- mathematics


def bench_math(peer: Path) -> list[Bar]:
    from apps.evals.graders.mathematics import mark_answer, mark_reference
    from tentalis.math_answers import MathError, MathVerifier

    drawn = list(dict.fromkeys(make_math(random.Random(SEED))))
    cases = [(mark_reference(reference), answer) for reference, answer in drawn]
    plain = [(reference, answer) for reference, answer in cases if mark_answer(answer) == answer]
    bare = [(reference, mark_answer(answer)) for reference, answer in cases if mark_answer(answer) != answer]
    meant = [(mark_reference(one.reference), one.answer) for one in ON_PURPOSE]
    said = ask_peer(peer, "math", [*plain, *bare, *meant])
    verifier = MathVerifier()

    def ask(reference: str, answer: str) -> bool | None:
        try:
            return bool(verifier.compare(reference=reference, answer=mark_answer(answer))["result"] == "right")
        except MathError:
            return None

    found = [ask(*pair) for pair in (*plain, *bare, *meant)]
    verifier.close()
    told = list(zip([*plain, *bare, *meant], found, said, strict=True))
    wrong = [one for one in told[: len(plain)] if one[1] != one[2]]
    odd = [one for one in told[len(plain) : -len(meant)] if one[1] != one[2]]
    others = [
        one for one, (_, ours, theirs) in zip(ON_PURPOSE, told[-len(meant) :], strict=True)
        if (ours, theirs) != (one.ours, one.theirs)
    ]  # fmt: skip
    right = sum(said[: len(plain)])
    name = f"pairs ({right:,} right), math-verify"
    return [
        Bar("math", name, len(plain) - len(wrong), max(len(plain), 3_000), None, wrong),
        Bar("math", "lines of bare LaTeX, math-verify within $", len(bare) - len(odd), len(bare), None, odd),
        Bar("math", "differs on purpose, as it is said", len(meant) - len(others), len(meant), None, others),
    ]


def make_math(rng: random.Random) -> Iterator[tuple[str, str]]:
    """What is right, and an answer: of one kind each, the same in another form or another one."""
    for _ in range(460):
        for kind in (
            make_number,
            make_fraction,
            make_expression,
            make_set,
            make_interval,
            make_with_unit,
            make_equation,
            make_other,
        ):
            reference, same, others = kind(rng)
            shown = rng.choice([*same, *same, *others])
            yield reference, rng.choice(FRAMES).replace("@", shown)


FRAMES = (
    "\\boxed{@}",
    "$@$",
    "Thus the answer is $\\boxed{@}$.",
    "The final answer is $@$. I hope it is correct.",
    "We get \\(@\\), for it is so.",
    "First $y = 3$. So **Answer:** $@$",
    "\\[ @ \\]",
    "It is $@$, as 2 + 2 = 4 shows.\n\n\\boxed{@}",
    "@",
)
Made = tuple[str, Sequence[str], Sequence[str]]


def make_number(rng: random.Random) -> Made:
    number = rng.choice([rng.randrange(-50, 50), rng.randrange(1_000, 99_999), round(rng.uniform(-9, 9), 2)])
    same = [f"{number}", f"{number:,}", f"{number}.0" if isinstance(number, int) else f"{number}0"]
    return str(number), same, [str(-number), str(number + 1), f"{number + 0.1:.4f}", f"{number}\\%"]


def make_fraction(rng: random.Random) -> Made:
    top, bottom = rng.randrange(1, 20), rng.choice([2, 3, 4, 5, 7, 8, 9])
    same = [
        f"\\frac{{{top}}}{{{bottom}}}",
        f"{top}/{bottom}",
        f"\\dfrac{{{2 * top}}}{{{2 * bottom}}}",
        f"{top / bottom:.8f}",
    ]
    others = [f"\\frac{{{bottom}}}{{{top}}}", f"{top / bottom:.2f}", f"-\\frac{{{top}}}{{{bottom}}}", f"{top}"]
    return f"\\frac{{{top}}}{{{bottom}}}", same, others


def make_expression(rng: random.Random) -> Made:
    a, b = rng.randrange(1, 9), rng.randrange(1, 9)
    return rng.choice(
        [
            (
                f"x^2 + {a + b}x + {a * b}",
                [f"(x+{a})(x+{b})", f"{a * b} + {a + b} x + x^2"],
                [f"(x-{a})(x+{b})", "x^2"],
            ),
            (
                f"{a}\\sqrt{{{b}}}",
                [f"\\sqrt{{{a * a * b}}}", f"\\sqrt{{{b}}} \\cdot {a}"],
                [f"\\sqrt{{{a * b}}}", f"{a}"],
            ),
            (f"{a}\\pi", [f"\\pi \\cdot {a}", f"{2 * a}\\pi / 2"], [f"{a}", f"\\pi^{a + 1}", f"{3.14 * a:.2f}"]),
            (f"2^{{{a}}}", [f"{2**a}", f"2^{{{a - 1}}} \\cdot 2"], [f"2^{{{a + 1}}}", f"{a}^2 + 1"]),
            (
                f"\\frac{{x}}{{{a}}} + y",
                [f"y + \\frac{{1}}{{{a}}} x", f"\\frac{{x + {a}y}}{{{a}}}"],
                [f"x + \\frac{{y}}{{{a + 1}}}"],
            ),
        ]
    )


def make_set(rng: random.Random) -> Made:
    members = rng.sample(range(-9, 20), 3)
    listed, mixed = ", ".join(map(str, members)), ", ".join(map(str, members[::-1]))
    same = [f"\\{{{listed}\\}}", f"\\{{{mixed}\\}}", mixed]
    others = [f"\\{{{members[0]}, {members[1]}\\}}", f"\\{{{listed}, 33\\}}", str(members[0])]
    return f"\\{{{listed}\\}}", same, others


def make_interval(rng: random.Random) -> Made:
    low, high = sorted(rng.sample(range(-9, 20), 2))
    left, right = rng.choice("[("), rng.choice("])")
    other = {"[": "(", "(": "[", "]": ")", ")": "]"}
    same = [f"{left}{low}, {high}{right}", f"{left}{low},{high}.0{right}", f"\\left{left}{low}, {high}\\right{right}"]
    others = [
        f"{other[left]}{low}, {high}{right}",
        f"{left}{low}, {high + 1}{right}",
        f"{left}{low}, \\infty)",
        f"{low}",
    ]
    return f"{left}{low}, {high}{right}", same, others


def make_with_unit(rng: random.Random) -> Made:
    number, unit = (
        rng.randrange(2, 400),
        rng.choice(["\\text{ cm}", "\\text{ meters}", "^\\circ", "\\%", "\\text{ dollars}"]),
    )
    return (
        f"{number}{unit}",
        [f"{number}{unit}", f"{number}", f"{number}.0{unit}"],
        [f"{number + 1}{unit}", f"{number * 10}"],
    )


def make_equation(rng: random.Random) -> Made:
    a, b = rng.randrange(2, 9), rng.randrange(1, 20)
    return rng.choice(
        [
            (f"x = {b}", [f"{b}", f"x = {b}.0"], [f"x = {b + 1}", f"{a + b + 1}"]),
            (f"y = {a}x + {b}", [f"{a}x + {b} = y", f"{a}x + {b}"], [f"y = {a}x - {b}", f"y = {b}x + {a + 30}"]),
            (f"x > {b}", [f"{b} < x", f"({b}, \\infty)"], [f"x \\geq {b}", f"x < {b}"]),
            (f"{a} < x < {a + b}", [f"({a}, {a + b})"], [f"[{a}, {a + b}]", f"{a} < x < {a + b + 1}"]),
        ]
    )


def make_other(rng: random.Random) -> Made:
    a, b, c, d = (rng.randrange(0, 9) for _ in range(4))
    matrix = f"\\begin{{pmatrix}} {a} & {b} \\\\ {c} & {d} \\end{{pmatrix}}"
    return rng.choice(
        [
            (
                matrix,
                [matrix, matrix.replace("pmatrix", "bmatrix")],
                [matrix.replace(f" {a} &", f" {a + 1} &"), f"{a}"],
            ),
            (f"({a}, {b})", [f"({a},{b})", f"\\left({a}, {b}\\right)"], [f"({b + 9}, {a})", f"({a}, {b}, {c})"]),
            (f"{a} + {b + 1}i", [f"{b + 1}i + {a}"], [f"{a} - {b + 1}i", f"{a + b + 1}"]),
            ("\\text{Monday}", ["\\text{Monday}", "\\text{ Monday}"], ["\\text{Tuesday}", "7"]),
            ("\\emptyset", ["\\emptyset", "\\{\\}"], ["\\{0\\}", "0"]),
            (f"{a + 1}:{b + 1}", [f"{a + 1}:{b + 1}"], [f"{b + 3}:{a + 1}", f"{a + 1}"]),
            ("A", ["A", "\\text{A}"], ["B", "\\text{AB}"]),
        ]
    )


# --- SQuAD


def bench_squad(peer: Path) -> list[Bar]:
    from tentalis.core.graders import squad

    rng = random.Random(SEED)
    words = _split("the a an The An Ulm Minster, (Ulm) don't U.S. 1,000 A.D. naïve Straße 日本 — _x_ $5 and cat Cat's")
    cases = []
    for _ in range(4_000):
        text = " ".join(rng.choice(words) for _ in range(rng.randrange(0, 7)))
        answer = rng.choice(
            [text, change_words(rng, text), text.upper(), f" {text}\n.", " ".join(rng.sample(words, 3)), ""]
        )
        cases.append((text, answer))
    said = ask_peer(peer, "squad", cases)
    exact = [
        (float(squad.is_exact(answer, text)), theirs[0], (text, answer))
        for (text, answer), theirs in zip(cases, said, strict=True)
    ]
    f1 = [
        (squad.score_f1(answer, text), theirs[1], (text, answer))
        for (text, answer), theirs in zip(cases, said, strict=True)
    ]
    return [
        compare_numbers("squad", "exact match, the official script", exact),
        compare_numbers("squad", "F1, the official script", f1),
    ]


# --- measures


def bench_measures(peer: Path) -> list[Bar]:
    from tentalis.core.graders.places import Box, find_iou
    from tentalis.core.graders.rankings import measure_ranking

    rng = random.Random(SEED)
    rankings = []
    for _ in range(800):
        count = rng.randrange(2, 25)
        gains = [rng.choice([0, 0, 0, 1, 1, 2, 3]) for _ in range(count)]
        gains[rng.randrange(count)] = 1
        scores = rng.sample(range(1_000), count)
        rankings.append((gains, scores, rng.randrange(1, count + 1)))
    boxes: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
    for _ in range(800):
        drawn = []
        for _ in range(2):
            (x1, x2), (y1, y2) = sorted(rng.sample(range(33), 2)), sorted(rng.sample(range(33), 2))
            drawn.append((x1, y1, x2, y2))
        boxes.append((drawn[0], drawn[1], 32))
    said = ask_peer(peer, "measures", {"rankings": rankings, "boxes": boxes})
    found: dict[str, list[float]] = {"ndcg": [], "map": [], "mrr": [], "precision": [], "recall": []}
    for gains, scores, k in rankings:
        order = sorted(range(len(gains)), key=lambda place: -scores[place])
        ranking, worth = [str(place) for place in order], {str(place): float(gain) for place, gain in enumerate(gains)}
        at_k, whole = measure_ranking(ranking, worth, k=k), measure_ranking(ranking, worth, k=len(gains))
        for name in found:
            found[name].append((whole if name in {"map", "mrr"} else at_k)[name])
    found["iou"] = [find_iou(Box(*one), Box(*other)) for one, other, _ in boxes]
    return [
        compare_numbers("measures", f"{name}, scikit-learn", list(zip(values, said[name], rankings, strict=True)))
        for name, values in found.items()
    ]


# --- patches


def bench_diff(peer: Path) -> list[Bar]:
    from tentalis.core.swe.patches import PatchError, apply_patch, overlay, parse_patch, write_patch

    rng = random.Random(SEED)
    cases = []
    for _ in range(400):
        lines = [f"line {rng.randrange(30)}\n" for _ in range(rng.randrange(3, 40))]
        changed = list(lines)
        for _ in range(rng.randrange(1, 5)):
            place = rng.randrange(len(changed) + 1)
            changed[place : place + rng.randrange(2)] = [f"new {rng.randrange(9)}\n"] * rng.randrange(1, 3)
        files = {"a.txt": "".join(lines), "b/c.txt": "other\n"}
        patch = write_patch({"a.txt": files["a.txt"].encode()}, {"a.txt": "".join(changed).encode()})
        pieces = patch.splitlines(keepends=True)
        place = rng.randrange(4, len(pieces))
        broken = [*pieces[:place], pieces[place][:1] + "no such line\n", *pieces[place + 1 :]]
        cases.append((files, rng.choice([patch, patch, "".join(broken), patch.replace("a.txt", "z.txt")])))
    said = ask_peer(peer, "diff", cases)
    wrong = []
    for (files, patch), theirs in zip(cases, said, strict=True):
        before = {path: text.encode() for path, text in files.items()}
        try:
            changed_files = overlay(before, apply_patch(before, parse_patch(patch)))
            ours = {path: content.decode() for path, content in changed_files.items()}
        except PatchError:
            ours = None
        if ours != theirs:
            wrong.append((patch, ours, theirs))
    return [Bar("diff", "patches, git apply", len(cases) - len(wrong), len(cases), None, wrong)]


# --- cheats and speed


def list_typical() -> Mapping[str, tuple[Any, Mapping[str, Any], str]]:
    """A right answer of a usual length for every grader that asks nobody."""
    from tests.apps.evals.test_text_graders import RIGHT

    reasons = "We look at it step by step. First we see that 3 of the 12 are left, which is a quarter.\n" * 6
    sentence = "The committee agreed on Tuesday that the new rules for small farms will come into force next spring ."
    changed = "On Tuesday the committee agreed that new rules for the small farms would come into force in spring ."
    longer = {"number", "choice", "depth"}
    typical = {
        name: (ref, how, f"{reasons}{text}" if name in longer else text) for name, (ref, how, text) in RIGHT.items()
    }
    return {**typical, **{name: (sentence, {}, changed) for name in ("bleu", "chrf", "ter")}}


def bench_cheats(peer: Path) -> list[Bar]:
    from tests.apps.evals.graders.asking import ask_grader
    from tests.apps.evals.test_text_graders import RIGHT

    rng = random.Random(SEED)
    signs = "abcdefghijklmnopqrstuvwxyz     \n.,;:!?(){}[]<>$\\=+-*/'\"#`~"
    bars = []
    for name, (reference, options, _) in RIGHT.items():
        garbage = ["".join(rng.choice(signs) for _ in range(rng.randrange(1, 200))) for _ in range(200)]
        silent = ["", " ", "\n", "I cannot answer.", "I cannot answer that question, sorry."]
        values = [ask_grader(name, reference, answer, **options).value for answer in (*silent, *garbage)]
        worth = [value if value is not None else 1.0 for value in values]
        mean = sum(worth[len(silent) :]) / len(garbage)
        met = sum(value == 0 for value in worth[: len(silent)]) + int(mean <= 0.02)
        bars.append(Bar("cheats", f"{name}: nothing is 0, garbage at most .02", met, len(silent) + 1, mean))
    return bars


def bench_speed(peer: Path) -> list[Bar]:
    from apps.evals.graders import REGISTRY
    from tentalis.core.grading import GradedTask
    from tentalis.core.scoring.protocol import AttemptContext

    bars = []
    for name, (reference, options, answer) in list_typical().items():
        grader = REGISTRY.get(name)
        assert grader is not None
        task = GradedTask(prompt="?", reference=reference, options=options)
        texts = [f"{answer}{' ' * (place % 7)}" for place in range(7)]
        episodes = [AttemptContext(environment="chat", prompt="?", text=text, steps=(), answer=text) for text in texts]
        grader.run(task, episodes[0])
        count, began = 0, time.process_time()
        while time.process_time() - began < 0.5:
            grader.run(task, episodes[count % 7])
            count += 1
        rate = count / (time.process_time() - began)
        bars.append(Bar("speed", f"{name}, answers a second: {rate:,.0f}", int(rate >= PER_SECOND), 1))
    return bars


def bench_beside(_: Path) -> list[Bar]:
    from tests.bench import graders_beside, overhead

    cases = graders_beside.make_cases()
    rows = graders_beside.grade_ours(cases)
    for tool, wanted in overhead.PEERS.items():
        said = ask_peer(install(overhead.CACHE.resolve() / tool, wanted), tool, cases, script="graders_beside_peer.py")
        rows += [row | {"tool": tool} for row in said]
    graders_beside.print_rows(rows)
    print(json.dumps({"bench": "graders", "part": "beside", "rows": rows}))
    count, missed = len(graders_beside.PROBES), graders_beside.find_misses(rows)
    return [
        Bar("beside", f"probes by {kind}", count - len(some), count, examples=some)
        for kind in dict.fromkeys(case["kind"] for case in cases)
        for some in [[miss for miss in missed if miss.startswith(f"{kind}:")]]
    ]


PARTS: Mapping[str, Callable[[Path], list[Bar]]] = {
    "translation": bench_translation,
    "math": bench_math,
    "squad": bench_squad,
    "measures": bench_measures,
    "diff": bench_diff,
    "cheats": bench_cheats,
    "beside": bench_beside,
    "speed": bench_speed,
}

if __name__ == "__main__":
    sys.exit(main())
