"""Whether what a model wants called can be called."""

from collections.abc import Mapping
from typing import Any, Final

from apps.checks.schemas import find_faults
from tentalis.core.tool_calls import WrittenCall, read_arguments

MOST_FAULTS: Final = 3


def find_call_fault(call: WrittenCall, parameters: Mapping[str, Any]) -> str:
    """What is wrong with a call, as its model is told; "" where it can be made.

    Args:
        parameters: tool -> JSON schema of its arguments, None for any.
    """
    if not call.name:
        return f"the call cannot be read: {call.arguments[:200]!r}"
    if call.name not in parameters:
        return f"there is no tool {call.name[:100]!r}; there are {', '.join(sorted(parameters))}"
    arguments = read_arguments(call.arguments)
    if arguments is None:
        return f"{call.name}: wanted arguments as a JSON object, found {call.arguments[:200]!r}"
    schema = parameters[call.name]
    faults = [] if schema is None else list(find_faults(schema, arguments))[:MOST_FAULTS]
    return f"{call.name}: the arguments are not as its schema says: {'; '.join(faults)}" if faults else ""
