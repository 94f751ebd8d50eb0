"""The alignment suite."""
