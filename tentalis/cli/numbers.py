"""Options that name figures: `--limit usd_per_day=2.5`."""

from collections.abc import Iterable

import typer


def read_numbers(option: str, texts: Iterable[str]) -> dict[str, float | int]:
    """["usd_per_day=2.5"] -> {"usd_per_day": 2.5}. Raises typer.BadParameter for anything else."""
    numbers: dict[str, float | int] = {}
    for word in texts:
        name, _, text = word.partition("=")
        try:
            numbers[name] = int(text) if text.isdigit() else float(text)
        except ValueError:
            raise typer.BadParameter(f"{option} wants NAME=NUMBER, found {word!r:.80}") from None
    return numbers
