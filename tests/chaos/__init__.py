"""Fault tests: real processes are killed and frozen while work goes on, then a pure checker reads what came of it."""
