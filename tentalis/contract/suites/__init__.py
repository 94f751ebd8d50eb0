"""One suite a group of entry points, and one for all."""
