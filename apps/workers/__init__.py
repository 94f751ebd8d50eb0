"""Who works where."""
