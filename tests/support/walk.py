"""Count the files of ours that a call goes through: what a newcomer opens who follows it by go-to-definition."""

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
OURS = tuple(f"{ROOT / name}/" for name in ("apps", "tentalis", "gpu_workers"))


def list_files(
    call: Callable[[], Any], *, handed: tuple[type, ...] = (), named: Collection[str] = ()
) -> dict[str, bool]:
    """Files of which a function ran in this thread while `call` did, in the order in which they were entered.

    Every function counts, however small; what a module or a class does when it is imported does not.

    Args:
        handed, named: types, and names of arguments.
    Returns:
        File -> whether a function of it was given an argument of such a type or name.
    """
    entered: dict[str, bool] = {}

    def look(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(OURS) or code.co_name == "<module>":
            return
        if not entered.setdefault(code.co_filename, False):
            told = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            entered[code.co_filename] = any(
                name in named or isinstance(frame.f_locals.get(name), handed) for name in told
            )

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {str(Path(name).relative_to(ROOT)): is_handed for name, is_handed in entered.items()}
