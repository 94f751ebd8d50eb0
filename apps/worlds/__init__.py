"""The worlds that tasks live in: a package each, and the registry that knows them by name."""
