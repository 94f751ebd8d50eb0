"""Games for one, out of textarena: world and nothing else; a chat worker works there."""

from apps.worlds.games.world import GamesWorld

WORLD = GamesWorld()
