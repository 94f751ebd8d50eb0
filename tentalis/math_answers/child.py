"""Compares mathematical answers, one line of JSON after another, until its input ends.

Run as a file by Python alone (`python -I child.py`): it has none of our environment, some memory, and some seconds of
a processor for each pair. What it reads was written by models.
"""

import json
import os
import resource
import signal
import sys
from functools import lru_cache
from typing import Any

MOST_BYTES = 2 * 2**30
"""Of addresses."""


class SlowError(BaseException):
    """A pair takes too long. No Exception, for the library lets none of these through."""


def compare(asked: dict[str, Any]) -> dict[str, Any]:
    """What the library says: right, wrong, or no_reference where it cannot read what is right."""
    from math_verify import parse, verify

    reference = read_reference(asked["reference"])
    if not reference:
        return {"result": "no_reference"}
    answer = parse(asked["answer"], parsing_timeout=None)
    text = next((one for one in answer if isinstance(one, str)), "")
    right = verify(
        list(reference),
        answer,
        float_rounding=asked["digits"],
        strict=asked["strict"],
        allow_set_relation_comp=asked["strict"] is False,
        timeout_seconds=None,
    )
    return {"result": "right" if right else "wrong", "read": text[:200]}


@lru_cache(maxsize=256)
def read_reference(text: str) -> tuple[Any, ...]:
    from math_verify import parse

    return tuple(parse(text, parsing_timeout=None))


def stop_slow(*_: object) -> None:
    raise SlowError


def limit_cpu(most_s: float) -> None:
    """Stop what comes next by a signal, and end us where none is heard: within one multiplication, for one."""
    signal.setitimer(signal.ITIMER_PROF, most_s)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + most_s) + 2, hard))


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, stop_slow)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            limit_cpu(asked["most_s"])
            told = compare(asked)
        except SlowError:
            told = {"result": "slow"}
        except Exception as error:  # noqa: BLE001 - whatever the library raises says nothing of the answer
            told = {"result": "failed", "why": f"{type(error).__name__}: {error}"[:300]}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        out.write(json.dumps(told) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
