"""The GUI world: a shop's site in a browser. A chat worker works there."""

from apps.worlds.gui.world import GuiWorld

WORLD = GuiWorld()
