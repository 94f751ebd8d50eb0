"""Judges are measured too: is a judging model fair, is it as it was, and may what it says train."""
