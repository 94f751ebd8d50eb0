"""The promotion gate: what it measures, and what it decides."""
