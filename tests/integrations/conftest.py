"""What needs a program from elsewhere runs when it is asked for by name: `pytest -m openclaw`."""

import pytest

NAMES = ("clients", "openclaw", "openrlhf", "releases", "vllm", "tracking", "typescript")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name in NAMES:
            if item.get_closest_marker(name) and name not in (config.option.markexpr or ""):
                item.add_marker(pytest.mark.skip(reason=f"fetches large programs: ask for it with -m {name}"))
