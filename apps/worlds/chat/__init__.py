"""The plain conversation: a prompt in, an answer out."""

from apps.worlds.chat.world import ChatWorld

WORLD = ChatWorld()
