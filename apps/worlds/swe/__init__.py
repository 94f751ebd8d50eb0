"""Repositories: a mistake in a module, tools to find and mend it, and tests that nobody is shown."""

from apps.worlds.swe.world import SweWorld

WORLD = SweWorld()
