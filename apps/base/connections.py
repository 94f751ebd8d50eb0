"""A database connection is held while it is used, not while its holder computes, waits or asks somebody else."""

from django.db import connections


def give_back_connections() -> bool:
    """Give this thread's connections back to the pool before something slow; the next query takes one again.

    One inside a transaction is kept: what was written is not lost. Returns whether none is held any more.
    """
    kept = False
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            kept = True
        else:
            connection.close()
    return not kept
