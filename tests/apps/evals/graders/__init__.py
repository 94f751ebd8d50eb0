"""Graders of the installation."""
