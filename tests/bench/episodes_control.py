"""Plays episodes that nobody keeps the turns of: what had not ended begins anew. For `tests.bench.episodes`."""

import sys
import uuid
from pathlib import Path

import django

django.setup()

from apps.worlds.episodes import Episode  # noqa: E402
from apps.worlds.playing import play  # noqa: E402
from apps.worlds.registry import get_world  # noqa: E402
from tests.apps.worlds.tally_package import TallyAgent  # noqa: E402

TURNS = 12


def make_episode(number: int) -> Episode:
    prompt = f"{TURNS - 1} of {number}"
    said = [{"role": "user", "content": prompt}]
    return Episode(key=f"{number}:{uuid.uuid4().hex}", prompt=prompt, opening=said)


def main(done: Path, count: int) -> None:
    done.mkdir(exist_ok=True)
    world = get_world("tally")
    left = [number for number in range(count) if not (done / str(number)).exists()]
    episodes = {number: make_episode(number) for number in left}
    play(episodes.values(), world=world, agent=TallyAgent(), model="tally")
    for number in episodes:
        (done / str(number)).touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
