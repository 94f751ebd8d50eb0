"""Data sets, benchmarks, evaluators."""
