"""Keeping what an installation holds: backups, the way back, and the drill that proves both."""
