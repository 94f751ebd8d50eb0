"""The seven experiments of `tests.bench.practical`, one a module, each with a `TITLE` and a `run`."""
