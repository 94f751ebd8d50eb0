"""Conversations of the Berkeley leaderboard: world and nothing else; a chat worker works there."""

from apps.worlds.bfcl.world import BfclWorld

WORLD = BfclWorld()
