"""Worlds that others run: the settings name their servers."""
