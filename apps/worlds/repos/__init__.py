"""Repositories of other people: tasks that were added to this installation, judged by their own tests."""

from apps.worlds.repos.world import ReposWorld

WORLD = ReposWorld()
