"""The workbench: world and nothing else; a chat worker works there."""

from apps.worlds.workbench.world import WorkbenchWorld

WORLD = WorkbenchWorld()
