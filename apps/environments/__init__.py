"""The worlds tasks live in."""
