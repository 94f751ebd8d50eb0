"""The terminal: small jobs at a shell in a sandbox, with house habits that only the manager knows."""

from apps.worlds.terminal.world import TerminalWorld

WORLD = TerminalWorld()
