"""What "right" means, as data: {"check": kind, …}, {"all": […]}, {"any": […]}, {"weighted": [[2, check], …]} or
{"use": "name@version"}, maybe with facts that it takes its values from (`apps.checks.facts`).

A check that cannot be read is refused where it is written. Reading takes bounded time and so does running: patterns run
in RE2, schemas have no circles, and an answer that is longer or deeper than is looked at is wrong: whoever writes it
could choose to be unscored otherwise. The kinds `scorer` and `judge`, and
graders that ask a judge, ask somebody, last of all, and only where what was checked before them leaves it open.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, NoReturn

import re2

from apps.base.texts import make_storable
from apps.checks import schemas, tongues
from apps.checks.facts import Facts, bind, find_facts, find_open, is_fact, read_given
from apps.checks.graders import SCORERS, asks_model, open_asked, reads_silence
from apps.checks.results import (
    AskedPart,
    CheckError,
    CheckResult,
    CheckVerdict,
    Said,
    decide,
    join_all,
    join_any,
    join_weighted,
    leave_unscored,
)
from apps.inference.errors import raise_if_paced
from tentalis.core.field_limits import MAX_PROMPT_CHARS
from tentalis.core.json_bounds import is_deeper
from tentalis.core.scoring.judging import RUBRIC_CHARS
from tentalis.core.scoring.quoting import clean_text
from tentalis.core.strict_json import StrictJsonError, check_text
from tentalis.plugins import GRADERS, REGISTRIES

logger = logging.getLogger(__name__)

MOST_PARTS: Final = 32
"""Of a check with all that is inside it; a named check counts with its own."""
MOST_ASKED: Final = 4
"""Of those, parts that ask a scorer, a judge or a grader that asks one."""
MOST_LEVELS: Final = 6
MOST_WORDS: Final = 500
MOST_MODEL: Final = 200
"""Characters of a model's name."""
MOST_REFERENCE: Final = 200_000
"""Characters of what a grader grades by, as JSON."""
MOST_PROGRAM: Final = 2_000
"""Instructions of a pattern."""
MOST_ANSWER: Final = 400_000
"""Characters of an answer that is looked at."""
MOST_PATTERN_WORK: Final = 20_000_000
"""Instructions times characters: RE2 goes through no more, however hard the pattern is."""
MOST_ANSWER_LEVELS: Final = 200
_NUMBER: Final = re.compile(
    r"(?:(?<![\w.])[-+−])?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)(?:[eE][-+]?\d{1,3})?",
    re.ASCII,
)
_RELATIVE_TOLERANCE: Final = Decimal("1e-9")
"""Of numbers that are not whole, for what is lost in writing them out; whole ones are the same or not."""
_FENCED: Final = re.compile(r"```[a-z]{0,10}\n(.*)\n```", re.DOTALL)
JOINED: Final = MappingProxyType({
    "all": "[check, …]", "any": "[check, …]", "weighted": "[[weight, check], …]"
})  # fmt: skip
"""What joins several checks -> how they are written there."""
_UNITS: Final[Mapping[str, Callable[[str], int]]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "lines": lambda text: len(text.splitlines()),
}

Ask = Callable[[AskedPart], Said]
"""Asks a scorer, a judge or a grader about the answer that is checked; may raise."""
Run = Callable[[str], CheckResult]
RunAsking = Callable[[str, Ask | None], CheckResult]
Find = Callable[[str], tuple[str, Any] | None]
"""`name` or `name@version` -> which version that is, and its check as it is stored; None for none."""


@dataclass(frozen=True)
class Check:
    """A check that could be read.

    Args:
        kind: its kind, or what joins its parts; size: checks in it, itself too.
        spec: as it is stored, with every check that it uses written out: {"use": "name@version", "is": check}, and with
            the facts that such a check wants: {"use": …, "with": {"order": "4711"}, "is": …}.
        asked: how many parts of it ask a scorer, a judge or a grader that asks one.
        facts: those that it wants of whoever uses it; until it has them it says nothing of any answer.
        reads_silence: it says something of no answer too, and does not take it for wrong.
    """

    kind: str
    size: int
    do: RunAsking
    spec: Any
    asked: int = 0
    facts: frozenset[str] = frozenset()
    reads_silence: bool = False

    def run(self, answer: str, ask: Ask | None = None) -> CheckResult:
        """What it says of an answer, NUL and half characters in it replaced. Whatever goes wrong in it leaves it
        unscored, but for PacedError.

        Args:
            ask: None: nobody is asked, and what asks is unscored.
        """
        if self.facts:
            return leave_unscored(self.kind, f"it wants facts of a task or an item: {_list(sorted(self.facts))}")
        if len(answer) > MOST_ANSWER:
            why = f"wanted an answer of at most {MOST_ANSWER:,} characters, found {len(answer):,}"
            return decide(self.kind, passes=False, why=why)
        try:
            return self.do(clean_text(answer), ask)
        except Exception as error:
            raise_if_paced(error)
            logger.warning("a check of kind %s could not be run", self.kind, exc_info=True)
            return leave_unscored(self.kind, f"it could not be run: {type(error).__name__}: {error}"[:500])


def read_check(
    spec: Any, *, where: str = "check", find: Find | None = None, facts: Facts | None = MappingProxyType({})
) -> Check:
    """A check as it is written.

    Args:
        facts: what is known of the task or item that it is for. None: it is for many, and what it wants stays open.
        where: the field it stands in, for words.
        find: gives a project's named checks. What is written out and says something else than the project's check of
            that name is another project's: it is taken without the name. None: all is written out, as it is stored.
    Raises:
        CheckError: saying which field, what was wanted and what was found.
    """
    return _read(spec, where, find, 1, facts)


def _read(spec: Any, where: str, find: Find | None, level: int, facts: Facts | None) -> Check:
    if not isinstance(spec, Mapping):
        raise CheckError(f"{where}: wanted an object such as {{'check': 'contains', …}}, found {spec!r:.200}")
    if level > MOST_LEVELS:
        raise CheckError(f"{where}: wanted at most {MOST_LEVELS} checks within each other, found more")
    if "check" in spec:
        kind = spec["check"]
        if isinstance(kind, str) and kind in JOINED:
            raise CheckError(f'{where}: wanted {{"{kind}": {JOINED[kind]}}}, found {{"check": "{kind}", …}}')
        if not isinstance(kind, str) or kind not in EVERY_KIND:
            raise CheckError(f"{where}.check: wanted one of {', '.join(EVERY_KIND)}, found {kind!r:.200}")
        wanted = find_facts(spec, where)
        if wanted and kind in ASKING:
            raise CheckError(f"{where}: wanted no facts, for a {kind} reads the task itself, found {_list(wanted)}")
        if wanted and facts is not None:
            spec = {
                name: bind(value, facts, f"{where}.{name}", quote=re2.escape if name == "pattern" else None)
                for name, value in spec.items()
            }
            wanted = frozenset()
        fields = CheckFields({name: value for name, value in spec.items() if name != "check"}, where)
        if kind == GRADER:
            do = _read_grader(fields, is_open=bool(wanted))
        else:
            do = _read_asking(kind, fields) if kind in ASKING else _asks_nobody(KINDS[kind](fields))
        fields.refuse_others()
        asked = open_asked(spec) if kind == GRADER else None
        asks = kind in ASKING or (asked is not None and asks_model(asked))
        silence = asked is not None and reads_silence(asked)
        return Check(kind, 1, do, dict(spec), asked=int(asks), facts=wanted, reads_silence=silence)
    if "use" in spec and not spec.keys() - {"use", "with", "is"}:
        return _read_used(spec, where, find, level, facts)
    joined = str(next(iter(spec), ""))
    if len(spec) != 1 or joined not in JOINED:
        raise CheckError(f"{where}: wanted one of check, {', '.join(JOINED)} or use, found {_list(spec)}")
    return _read_joined(
        joined, spec[joined], f"{where}.{joined}", partial(_read, find=find, level=level + 1, facts=facts)
    )


def _read_joined(joined: str, given: Any, where: str, read: Callable[..., Check]) -> Check:
    if not isinstance(given, list) or not given:
        raise CheckError(f"{where}: wanted a list of checks, found {given!r:.200}")
    if len(given) > MOST_PARTS:
        raise CheckError(f"{where}: wanted at most {MOST_PARTS} checks, found {len(given):,}")
    weights: list[float] = []
    if joined == "weighted":
        for place, pair in enumerate(given):
            if not isinstance(pair, list) or len(pair) != 2:
                raise CheckError(f"{where}[{place}]: wanted [weight, check], found {pair!r:.200}")
            weights.append(_number(pair[0], f"{where}[{place}][0]", above=0.0))
        given = [check for _, check in given]
    parts = [read(check, f"{where}[{place}]") for place, check in enumerate(given)]
    size = 1 + sum(part.size for part in parts)
    if size > MOST_PARTS:
        raise CheckError(f"{where}: wanted at most {MOST_PARTS} checks with all inside, found {size:,}")
    asked = _bound_asked(parts, where)

    def run(answer: str, ask: Ask | None) -> CheckResult:
        if joined == "weighted":
            return join_weighted(joined, run_parts(parts, answer, ask), weights)
        is_all = joined == "all"
        said = run_parts(parts, answer, ask, settled_by=0.0 if is_all else 1.0)
        return (join_all if is_all else join_any)(joined, said)

    specs = [part.spec for part in parts]
    told = [list(pair) for pair in zip(weights, specs, strict=True)] if joined == "weighted" else specs
    open_facts = frozenset[str]().union(*(part.facts for part in parts))
    return Check(joined, size, run, {joined: told}, asked, open_facts)


def _bound_asked(checks: Sequence[Check], where: str) -> int:
    asked = sum(check.asked for check in checks)
    if asked > MOST_ASKED:
        whom = "a scorer, a judge or a grader that asks one"
        raise CheckError(f"{where}: wanted at most {MOST_ASKED} parts that ask {whom}, found {asked}")
    return asked


def run_parts(
    parts: Sequence[Check], answer: str, ask: Ask | None, *, settled_by: float | None = None, is_settled: bool = False
) -> list[CheckResult]:
    """What each says, those that ask somebody last.

    Args:
        settled_by: the share by which one part settles it all, so that nobody has to be asked any more.
    """
    said: dict[int, CheckResult] = {}
    for place in sorted(range(len(parts)), key=lambda place: parts[place].asked):
        part = parts[place]
        if is_settled and part.asked:
            said[place] = leave_unscored(part.kind, "nobody was asked: other parts settle it")
        else:
            said[place] = part.run(answer, ask)
            is_settled = is_settled or (settled_by is not None and said[place].share == settled_by)
    return [said[place] for place in range(len(parts))]


def _read_used(spec: Mapping[str, Any], where: str, find: Find | None, level: int, facts: Facts | None) -> Check:
    name = spec["use"]
    if not isinstance(name, str) or not name or len(name) > 120:
        raise CheckError(f"{where}.use: wanted name@version, found {name!r:.200}")
    stored, is_named = spec.get("is"), True
    if find is not None:
        named = find(name)
        if "is" in spec and (named is None or named[1] != stored):
            is_named = False
        elif named is None:
            raise CheckError(f"{where}.use: wanted a check of this project, found none named {name!r:.200}")
        else:
            name, stored = named
    elif "is" not in spec:
        raise CheckError(f"{where}.use: wanted a check of a project, found {name!r} where there is none")
    wanted = find_open(stored, f"{where}.use({name})")
    given = read_given(spec.get("with", {}), f"{where}.with", wanted=wanted)
    open_facts = (wanted - frozenset(given)) | find_facts(given, f"{where}.with")
    if not open_facts:
        facts = {}
    if facts is not None:
        given = {one: bind(given.get(one, {"fact": one}), facts, f"{where}.with.{one}") for one in sorted(wanted)}
        open_facts = frozenset()
    if not is_named and (given or open_facts) and facts is None:
        raise CheckError(f"{where}.is: wanted {name!r} of this project, or all of its facts, found neither")
    inside = find if not is_named else None
    words = f"{where}.use({name})" if is_named else f"{where}.is"
    check = _read(stored, words, inside, level + 1, None if facts is None else given)
    if not is_named:
        return check

    def run(answer: str, ask: Ask | None) -> CheckResult:
        return replace(check.run(answer, ask), check=name)

    whole = {"use": name, "is": stored} | ({"with": dict(given)} if given else {})
    return Check(name, check.size + 1, run, whole, check.asked, open_facts)


class CheckFields:
    """The fields of one check, taken one by one; what nobody takes is refused.

    A fact that is not known yet reads as something that could stand there: it is looked at again where it is known.
    """

    def __init__(self, given: Mapping[str, Any], where: str) -> None:
        self.given, self.where, self.taken = given, where, set[str]()

    def take(self, name: str, default: Any = None, *, stand_in: Any = "1") -> Any:
        self.taken.add(name)
        value = self.given.get(name, default)
        return stand_in if is_fact(value) else value

    def refuse(self, name: str, wanted: str) -> NoReturn:
        found = repr(self.given[name])[:200] if name in self.given else "none"
        raise CheckError(f"{self.where}.{name}: wanted {wanted}, found {found}")

    def text(self, name: str, *, takes_numbers: bool = False) -> str:
        value = self.take(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and takes_numbers:
            if not math.isfinite(value):
                self.refuse(name, "a finite number")
            return str(value)
        wanted = f"a text{' or a number' if takes_numbers else ''} of at most {MAX_PROMPT_CHARS:,} characters"
        if not isinstance(value, str) or not value.strip() or len(value) > MAX_PROMPT_CHARS:
            self.refuse(name, wanted)
        return _kept(value, f"{self.where}.{name}")

    def texts(self, name: str, *, stand_in: str = "1") -> list[str]:
        value = self.take(name, stand_in=[stand_in])
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_WORDS:
            self.refuse(name, f"a list of 1 to {MOST_WORDS} texts")
        value = [stand_in if is_fact(text) else text for text in value]
        for text in value:
            if not isinstance(text, str) or not text.strip() or len(text) > 200:
                self.refuse(name, "texts of at most 200 characters")
            _kept(text, f"{self.where}.{name}")
        return value

    def flag(self, name: str) -> bool:
        value = self.take(name, default=False, stand_in=False)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def count(self, name: str, *, stand_in: int) -> int | None:
        value = self.take(name, stand_in=stand_in)
        if value is not None and (type(value) is not int or not 0 <= value <= MOST_ANSWER):
            self.refuse(name, f"a whole number from 0 to {MOST_ANSWER:,}")
        return value

    def refuse_others(self) -> None:
        if others := [name for name in self.given if name not in self.taken]:
            raise CheckError(f"{self.where}: wanted {_list(sorted(self.taken))}, found {_list(others)}")


def _list(names: Any) -> str:
    return ", ".join(map(str, names))[:200] or "nothing"


def _kept(text: str, where: str) -> str:
    try:
        check_text(text)
    except StrictJsonError as error:
        raise CheckError(f"{where}: {error}") from None
    return text


def _number(value: Any, where: str, *, above: float = -math.inf, least: float = -math.inf) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -1e300 < value < 1e300 or not value > above or value < least:
        bound = (
            f" above {above:g}" if math.isfinite(above) else f" of at least {least:g}" if math.isfinite(least) else ""
        )
        raise CheckError(f"{where}: wanted a finite number{bound}, found {value!r:.200}")
    return float(value)


def _read_exact(fields: CheckFields) -> Run:
    value, fold = fields.text("value", takes_numbers=True), _folding(fields)
    return lambda answer: _compare("exact", fold(answer) == fold(value), "the answer is it", "the answer is another")


def _read_contains(fields: CheckFields) -> Run:
    value, fold = fields.text("value", takes_numbers=True), _folding(fields)
    return lambda answer: _compare("contains", fold(value) in fold(answer), "the answer holds it", "it is not in there")


def _folding(fields: CheckFields) -> Callable[[str], str]:
    """Blanks aside, and case unless it counts."""
    if fields.flag("case"):
        return lambda text: " ".join(text.split())
    return lambda text: " ".join(text.casefold().split())


def _compare(check: str, passes: bool, right: str, wrong: str) -> CheckResult:
    return decide(check, passes=passes, why=right if passes else wrong)


def _read_number(fields: CheckFields) -> Run:
    numbers = _NUMBER.findall(fields.text("value", takes_numbers=True))
    target = _open_number(numbers[0]) if len(numbers) == 1 else None
    if target is None or not math.isfinite(target):
        fields.refuse("value", "a number, one alone, such as 12, -0.5, 1,234.5 or 12 kg")
    tolerance = _number(fields.take("tolerance", default=0, stand_in=0), f"{fields.where}.tolerance", least=0.0)

    def run(answer: str) -> CheckResult:
        found = find_last_number(answer)
        if found is None:
            return decide("number", passes=False, why="there is no number in the answer")
        passes = _is_near(found, target, Decimal(repr(tolerance)))
        return decide("number", passes=passes, why=f"the answer's last number is {float(found):.15g}")

    return run


def _is_near(found: Decimal, target: Decimal, tolerance: Decimal) -> bool:
    """Within the tolerance; without one the same whole number, or a billionth from one that is not whole."""
    if found == target:
        return True
    if not _is_whole(found) or not _is_whole(target):
        tolerance = max(tolerance, _RELATIVE_TOLERANCE * max(abs(found), abs(target)))
    return abs(found - target) <= tolerance


def _is_whole(number: Decimal) -> bool:
    return number == number.to_integral_value()


def read_number(text: str) -> Decimal | None:
    """What a text that is one number and nothing else says; None for any other."""
    return _open_number(text.strip()) if _NUMBER.fullmatch(text.strip()) else None


def find_last_number(text: str) -> Decimal | None:
    """None where there is none."""
    numbers = _NUMBER.findall(text)
    return _open_number(numbers[-1]) if numbers else None


def _open_number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("−", "-"))


def _read_regex(fields: CheckFields) -> Run:
    text, is_whole = fields.text("pattern"), fields.flag("whole")
    try:
        pattern = _open_pattern(text)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        fields.refuse("pattern", f"a pattern that RE2 reads ({said[:200]})")
    if pattern.programsize > MOST_PROGRAM:
        fields.refuse("pattern", f"a pattern of at most {MOST_PROGRAM:,} instructions ({pattern.programsize:,})")

    def run(answer: str) -> CheckResult:
        if pattern.programsize * len(answer) > MOST_PATTERN_WORK:
            most = MOST_PATTERN_WORK // pattern.programsize
            why = f"wanted an answer of at most {most:,} characters, for so large a pattern, found {len(answer):,}"
            return decide("regex", passes=False, why=why)
        found = pattern.fullmatch(answer.strip()) if is_whole else pattern.search(answer)
        return _compare("regex", found is not None, "the pattern matches", "the pattern does not match")

    return run


@lru_cache(maxsize=256)
def _open_pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    return re2.compile(text, options)


def _read_schema(fields: CheckFields) -> Run:
    schema = fields.take("schema", stand_in=True)
    if schema is None:
        fields.refuse("schema", "a JSON schema")
    if not find_facts(schema, f"{fields.where}.schema"):
        schemas.check_schema(schema, f"{fields.where}.schema")

    def run(answer: str) -> CheckResult:
        fenced = _FENCED.fullmatch(answer.strip())
        try:
            value = json.loads(
                fenced[1] if fenced else answer, parse_constant=_refuse_constant, parse_float=_read_float
            )
            too_deep = is_deeper(value, MOST_ANSWER_LEVELS)
        except RecursionError:
            too_deep = True
        except ValueError as error:
            return decide("json_schema", passes=False, why=f"the answer is no JSON: {error}"[:300])
        if too_deep:
            return decide("json_schema", passes=False, why=f"wanted at most {MOST_ANSWER_LEVELS} levels, found more")
        fault = next(schemas.find_faults(schema, make_storable(value)), None)
        words = (
            "the answer is as the schema says" if fault is None else f"the answer is not as the schema says: {fault}"
        )
        return decide("json_schema", passes=fault is None, why=words)

    return run


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"found {name}")


def _read_float(text: str) -> float:
    """What no float can hold is none: the library would take it for null, which no bound of numbers is for."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"found {text[:40]}")
    return value


def _read_length(fields: CheckFields) -> Run:
    unit = fields.take("unit", default="characters", stand_in="words")
    least, most = fields.count("min", stand_in=0), fields.count("max", stand_in=MOST_ANSWER)
    if unit not in _UNITS:
        fields.refuse("unit", f"one of {', '.join(_UNITS)}")
    if least is None and most is None:
        fields.refuse("min", "min or max")
    if least is not None and most is not None and least > most:
        fields.refuse("max", f"at least min, {least}")

    def run(answer: str) -> CheckResult:
        found = _UNITS[unit](answer.strip())
        passes = (least is None or found >= least) and (most is None or found <= most)
        return decide("length", passes=passes, why=f"the answer has {found:,} {unit if found != 1 else unit[:-1]}")

    return run


def _read_forbidden(fields: CheckFields) -> Run:
    words = fields.texts("words")
    either = "|".join(re2.escape(" ".join(word.split())) for word in sorted(words, key=len, reverse=True))
    try:
        pattern = _open_pattern(rf"(?i)(?:^|[^\pL\pN_])({either})(?:$|[^\pL\pN_])")
    except re2.error:
        fields.refuse("words", "fewer or shorter words")

    def run(answer: str) -> CheckResult:
        if found := pattern.search(" ".join(answer.split())):
            return decide("forbidden", passes=False, why=f"the answer says {found[0].strip()!r}")
        return decide("forbidden", passes=True, why="the answer says none of the words")

    return run


def _read_language(fields: CheckFields) -> Run:
    wanted = fields.texts("languages", stand_in="en")
    if unknown := [code for code in wanted if code not in tongues.LANGUAGES]:
        fields.refuse("languages", f"codes of ISO 639-1 such as de, en, fr (not known: {_list(unknown)})")

    def run(answer: str) -> CheckResult:
        said = tongues.guess(answer, wanted)
        if said.share is None:
            return leave_unscored("language", said.words)
        return decide("language", passes=said.share >= 0.5, why=said.words)

    return run


KINDS: Final[Mapping[str, Callable[[CheckFields], Run]]] = {
    "exact": _read_exact,
    "contains": _read_contains,
    "number": _read_number,
    "regex": _read_regex,
    "json_schema": _read_schema,
    "length": _read_length,
    "forbidden": _read_forbidden,
    "language": _read_language,
}
"""Kind -> what reads its fields and gives what runs it."""


def _read_scorer(fields: CheckFields) -> AskedPart:
    name = fields.text("name")
    if name not in REGISTRIES[SCORERS]:
        fields.refuse("name", f"a scorer, one of {', '.join(REGISTRIES[SCORERS])}")
    return AskedPart("scorer", name=name)


def _read_judge(fields: CheckFields) -> AskedPart:
    told: dict[str, Any] = {name: fields.text(name) for name in ("rubric", "model") if fields.take(name) is not None}
    for name, most in (("rubric", RUBRIC_CHARS), ("model", MOST_MODEL)):
        if len(told.get(name, "")) > most:
            raise CheckError(f"{fields.where}.{name}: wanted at most {most:,} characters, found {len(told[name]):,}")
    return AskedPart("judge", **told)


ASKING: Final[Mapping[str, Callable[[CheckFields], AskedPart]]] = {"scorer": _read_scorer, "judge": _read_judge}
"""Kind -> what reads who is asked."""


GRADER: Final = "grader"
EVERY_KIND: Final = (*KINDS, GRADER, *ASKING)


def _read_grader(fields: CheckFields, *, is_open: bool) -> RunAsking:
    """A grader by its name, with what it grades by; `is_open`: facts of that are not known yet."""
    name, registry = fields.text("name"), REGISTRIES[GRADERS]
    if name not in registry:
        fields.refuse("name", f"a grader, one of {', '.join(registry)}")
    reference, options = fields.take("reference"), fields.take("options", default={}, stand_in={})
    if fields.take("model") is not None and len(fields.text("model")) > MOST_MODEL:
        fields.refuse("model", f"at most {MOST_MODEL} characters")
    if not isinstance(options, Mapping):
        fields.refuse("options", "an object")
    if is_deeper(reference, MOST_ANSWER_LEVELS) or len(json.dumps(reference)) > MOST_REFERENCE:
        raise CheckError(f"{fields.where}.reference: wanted at most {MOST_REFERENCE:,} characters of JSON, found more")
    if not is_open:
        try:
            registry.get(name).check_given(reference, options)  # type: ignore[union-attr]  # it is in there
        except ValueError as error:
            raise CheckError(f"{fields.where}: {error}"[:1_000]) from None
    asked = open_asked({"check": GRADER, **fields.given})

    def run(answer: str, ask: Ask | None) -> CheckResult:
        if ask is None:
            return leave_unscored(name, "nobody is asked here")
        said = ask(asked)
        if said.share is None:
            return replace(leave_unscored(name, said.words, grader=said.grader), is_untold=said.is_untold)
        verdict = CheckVerdict.PASSED if said.share == 1.0 else CheckVerdict.FAILED
        return CheckResult(name, verdict, said.share, said.words, grader=said.grader, details=said.details)

    return run


def _read_asking(kind: str, fields: CheckFields) -> RunAsking:
    asked, least = ASKING[kind](fields), fields.take("min")
    if least is not None and (_number(least, f"{fields.where}.min", above=0.0) > 1):
        fields.refuse("min", "a share above 0, at most 1")

    def run(answer: str, ask: Ask | None) -> CheckResult:
        if ask is None:
            return leave_unscored(kind, "nobody is asked here")
        said = ask(asked)
        if said.share is None:
            return leave_unscored(kind, said.words, grader=said.grader)
        share = said.share if least is None else float(said.share >= least)
        verdict = CheckVerdict.PASSED if share == 1.0 else CheckVerdict.FAILED
        words = said.words if least is None else f"{said.words}, wanted {least:g}"
        return CheckResult(kind, verdict, share, words, grader=said.grader)

    return run


def _asks_nobody(run: Run) -> RunAsking:
    return lambda answer, _ask: run(answer)


def read_checks(
    specs: Any, *, where: str = "checks", find: Find | None = None, facts: Facts | None = MappingProxyType({})
) -> list[Check]:
    """One check, or a list of them, with the facts of the task or item they are for; None: not known yet."""
    if isinstance(specs, Mapping):
        return [read_check(specs, where=where, find=find, facts=facts)]
    if not isinstance(specs, Sequence) or isinstance(specs, str) or len(specs) > MOST_PARTS:
        raise CheckError(f"{where}: wanted a list of at most {MOST_PARTS} checks, found {specs!r:.200}")
    checks = [read_check(spec, where=f"{where}[{place}]", find=find, facts=facts) for place, spec in enumerate(specs)]
    _bound_asked(checks, where)
    return checks
