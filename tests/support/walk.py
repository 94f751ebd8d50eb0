"""Count the files of ours that a call goes through: what a newcomer opens who follows it by go-to-definition."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
OURS = tuple(f"{ROOT / name}/" for name in ("apps", "tentalis", "gpu_workers"))


def list_files(call: Callable[[], Any]) -> list[str]:
    """Files of which a function ran in this thread while `call` did, in the order in which they were entered.

    Every function counts, however small; what a module or a class does when it is imported does not.
    """
    entered: dict[str, None] = {}

    def look(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and code.co_name != "<module>":
            entered.setdefault(code.co_filename)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [str(Path(name).relative_to(ROOT)) for name in entered]
