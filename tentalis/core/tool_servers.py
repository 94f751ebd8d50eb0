"""Servers of tools (Model Context Protocol) whose tools are a world, as a setting names them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tentalis.core.world_servers import MOST_TURNS, require_like


@dataclass(frozen=True, kw_only=True)
class ToolServer:
    """An MCP server.

    Args:
        url: where it is, http or https; "": it is a program.
        command: the program and its arguments, which speaks over its standard input and output; it runs in a sandbox,
            a fresh one each episode.
        image: directory whose files are laid over that sandbox's root.
        label: what people call its world.
        turns: that an episode may take.
        acts_outside: what its tools do changes something elsewhere: it is tried for tasks alone, never to measure. Of a
            program in a sandbox that is never so.
        allow_private: it may be on this machine or in a private network.
    """

    url: str = ""
    command: Sequence[str] = ()
    image: str = ""
    label: str = ""
    turns: int = 30
    acts_outside: bool = True
    allow_private: bool = False

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.command):
            raise ValueError("wanted a url or a command, one of them")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url: wanted http or https, found {self.url!r:.80}")
        if self.command and not all(isinstance(one, str) for one in self.command):
            raise ValueError(f"command: wanted a list of texts, found {self.command!r:.80}")
        if self.command and not self.image:
            raise ValueError("image: wanted a directory whose files are in the sandbox that the command runs in")
        if not 1 <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns: wanted 1 to {MOST_TURNS}, found {self.turns}")

    @classmethod
    def from_json(cls, told: Any) -> "ToolServer":
        """Raises ValueError saying what was wanted and found."""
        names = [field.name for field in fields(cls)]
        if not isinstance(told, Mapping) or set(told) - set(names):
            found = ", ".join(map(str, told)) if isinstance(told, Mapping) else repr(told)
            raise ValueError(f"wanted an object of {', '.join(names)}, found {found:.120}")
        require_like(cls, told)
        return cls(**told)
