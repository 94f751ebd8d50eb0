"""Cancel asyncio tasks that run beside the requests of a web process, and wait for their end."""

import asyncio

AGAIN_S = 0.5


async def cancel_and_wait(task: asyncio.Task[None] | None) -> None:
    """Cancel a task until it has ended.

    A library may take one cancellation for a failure of its own (a timeout, a connection that is closed), and the task
    goes on with its next round; whoever waits for it then waits for ever.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)
