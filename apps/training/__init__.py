"""Specs out, results in, attempts, heartbeats."""
