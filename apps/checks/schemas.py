"""JSON schemas that end: no reference leaves the schema, none goes in a circle, and patterns take linear time."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

from apps.checks.results import CheckError
from tentalis.core.canon import canonical_json
from tentalis.core.json_bounds import is_deeper

MOST_LEVELS: Final = 40
MOST_SUBSCHEMAS: Final = 2_000
"""With every reference written out: an answer's value meets each of them once at most."""
_REFUSED: Final = frozenset({"$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""Keywords that hold schemas by name."""
_NO_SCHEMAS: Final = frozenset({"const", "enum", "default", "examples", "$defs", "definitions"})
"""They hold values, or schemas that count where they are referred to."""
_PATTERN_BYTES: Final = 1 << 20


@lru_cache(maxsize=256)
def _open(schema: str) -> jsonschema_rs.Validator:
    limits = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=limits)


def check_schema(schema: Any, where: str) -> None:
    """Raise CheckError for what is no JSON schema, or for one whose end cannot be told."""
    if not isinstance(schema, dict | bool):
        raise CheckError(f"{where}: wanted a JSON schema, found {type(schema).__name__}")
    if is_deeper(schema, MOST_LEVELS):
        raise CheckError(f"{where}: wanted at most {MOST_LEVELS} levels, found more")
    _count(schema, schema, (), where)
    try:
        _open(canonical_json(schema).decode())
    except ValueError as error:
        raise CheckError(f"{where}: wanted a JSON schema, found {str(error).splitlines()[0][:300]}") from None


def find_faults(schema: Any, value: Any) -> Iterator[str]:
    """Where a value is not as the schema says, and by which of its keywords."""
    for error in _open(canonical_json(schema).decode()).iter_errors(value):
        place = "".join(f"/{step}" for step in error.instance_path)[:200] or "the whole"
        yield f"{place}: {error.kind.name}"


def _count(schema: Any, root: Any, inside: tuple[str, ...], where: str) -> int:
    """How many schemas there are with its references written out."""
    if not isinstance(schema, dict):
        return 1
    for name in _REFUSED & schema.keys():
        raise CheckError(f"{where}: wanted $ref alone, found {name}")
    if schema is not root and any(isinstance(schema.get(name), str) for name in ("$id", "id")):
        raise CheckError(f"{where}: wanted an id at the top alone, found one further in")
    found = 1
    for inner in _find_inner(schema):
        found = _bounded(found + _count(inner, root, inside, where), where)
    if isinstance(target := schema.get("$ref"), str):
        if target in inside or len(inside) == MOST_LEVELS:
            raise CheckError(f"{where}: wanted references that end, found {target!r:.200} inside itself or too far in")
        found += _count(_follow(root, target, where), root, (*inside, target), where)
    return _bounded(found, where)


def _find_inner(schema: dict[str, Any]) -> Iterator[Any]:
    for name, value in schema.items():
        if name in _BY_NAME and isinstance(value, dict):
            yield from value.values()
        elif name not in _NO_SCHEMAS:
            yield from value if isinstance(value, list) else [value] if isinstance(value, dict) else ()


def _bounded(found: int, where: str) -> int:
    if found > MOST_SUBSCHEMAS:
        raise CheckError(f"{where}: wanted at most {MOST_SUBSCHEMAS:,} parts with references written out, found more")
    return found


def _follow(root: Any, target: str, where: str) -> Any:
    if "%" in target or (target != "#" and not target.startswith("#/")):
        raise CheckError(f"{where}: wanted references into the schema itself (#/…), found {target!r:.200}")
    found = root
    for step in target.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            raise CheckError(f"{where}: wanted a place in the schema, found {target!r:.200}")
        found = found[name]
    return found
