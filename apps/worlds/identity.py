"""Which world it was that said something: its name, its version, and what it is made of."""

from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

from tentalis.core.canon import content_hash
from tentalis.core.worlds import World

SHOWN: Final = 12
"""Characters of the hash in a world's full name."""


def name_world(world: World) -> str:
    """`tally@1+0f3a9c1d2e4b`, and `tally+0f3a9c1d2e4b` of one without a version."""
    version = f"@{world.version}" if world.version else ""
    return f"{world.name}{version}+{hash_world(world)[:SHOWN]}"


@lru_cache(maxsize=64)
def hash_world(world: World) -> str:
    """SHA-256 of the files that a world is made of, the same wherever these lie: of the packages of its class and of
    those that it is derived from, and of what it says in `made_of`. Read once a process."""
    kind = type(world)
    bases = [base for base in kind.__mro__ if issubclass(base, World) and base is not World]
    names = {import_module(base.__module__).__package__ or base.__module__ for base in bases}
    names |= {name for base in bases for name in base.made_of}
    return content_hash([kind.__qualname__, {name: list(_hash_files(name)) for name in sorted(names)}])


@cache
def hash_packages(names: tuple[str, ...]) -> str:
    """SHA-256 of the files of packages, the same wherever these lie. Read once a process."""
    return content_hash({name: list(_hash_files(name)) for name in names})


def _hash_files(name: str) -> Iterator[tuple[str, str]]:
    """(place, hash) of every file of a package, or of a module that is none."""
    module = import_module(name)
    roots = [Path(root) for root in getattr(module, "__path__", ())]
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield path.relative_to(root).as_posix(), sha256(path.read_bytes()).hexdigest()
    if not roots and (file := getattr(module, "__file__", None)):
        yield name, sha256(Path(file).read_bytes()).hexdigest()
