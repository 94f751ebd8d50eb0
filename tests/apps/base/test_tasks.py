"""What runs beside the requests ends when it is told to, though a library swallows the first cancellation."""

import asyncio

from apps.base.tasks import cancel_and_wait


async def run_for_ever(*, deaf_rounds: int, rounds: list[int]) -> None:
    while True:
        try:
            rounds.append(len(rounds))
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if len(rounds) > deaf_rounds:
                raise


def test_a_task_that_takes_a_cancellation_for_a_failure_ends_all_the_same() -> None:
    async def play(deaf_rounds: int) -> list[int]:
        rounds: list[int] = []
        task = asyncio.create_task(run_for_ever(deaf_rounds=deaf_rounds, rounds=rounds))
        await asyncio.sleep(0)
        await cancel_and_wait(task)
        assert task.cancelled()
        await cancel_and_wait(task)
        await cancel_and_wait(None)
        return rounds

    assert asyncio.run(play(0)) == [0]
    assert asyncio.run(play(2)) == [0, 1, 2]
