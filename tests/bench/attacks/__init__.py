"""Attacks on a running box, in plain words, each with what holds against it."""
