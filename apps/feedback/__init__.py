"""Reviews, managers' words and hints."""
