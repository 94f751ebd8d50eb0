"""What a process that starts and lives long spares itself: searches for garbage, which go through everything it holds
each time, and modules of others that nobody here uses."""

import gc
import importlib
import sys
from collections.abc import Sequence

YOUNG = 20_000
"""So many new objects begin a search among the young; at the 700 of the default a queue process spends a fifth of its
time on searches, most of it among modules and classes that stay for ever."""

UNUSED = ("httpx._main",)
"""Modules that their libraries look for and do without: httpx' own command line, with rich, pygments and click."""
WITHOUT = {"redis": "opentelemetry.sdk.metrics", "httpcore": "h2", "kombu.serialization": "yaml"}
"""Libraries, and what each would load for what nobody here switches on: metrics of Redis, HTTP/2, messages in YAML."""


def spare_imports() -> None:
    """Search less often from here on, and do not find `UNUSED`. Called first: modules stay, and searching took a
    quarter of a start."""
    gc.set_threshold(YOUNG)
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # as Python's import reads it: not to be found


def load_sparely() -> None:
    """Load the libraries of `WITHOUT`, each without what it would load: a twelfth of Django's start. Whoever else wants
    that, a plug-in say, finds it afterwards."""
    for library, other in WITHOUT.items():
        if other not in sys.modules:
            sys.modules[other] = None  # type: ignore[assignment]
            try:
                importlib.import_module(library)
            finally:
                del sys.modules[other]


def settle_garbage(thresholds: Sequence[int] = (YOUNG,)) -> None:
    """Leave what was loaded so far out of later searches, and search less often. Called once, when all is loaded.

    Args:
        thresholds: as `gc.set_threshold` takes them, of the youngest first; those that are not given stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
