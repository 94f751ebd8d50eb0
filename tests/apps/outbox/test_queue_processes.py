"""What queue processes keep from message to message."""

import subprocess
import sys

SETTLED = """
import gc
from tentalis.garbage import YOUNG, settle_garbage
settle_garbage()
kept, young, *rest = gc.get_freeze_count(), *gc.get_threshold()
assert kept > 1000 and young == YOUNG and rest == [10, 10], (kept, young, rest)
"""


def test_what_is_loaded_at_the_start_is_searched_no_more() -> None:
    subprocess.run([sys.executable, "-c", SETTLED], check=True, timeout=60)
