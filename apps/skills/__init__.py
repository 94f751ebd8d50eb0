"""The skill store."""
