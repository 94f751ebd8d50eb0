"""`python -m tentalis.platform.set_up`: migrations and the first admin in one process, as loading Django costs 2 s.

The supervisor runs it once before the web side starts. It is the one place here that loads Django.
"""

import sys


def set_up() -> int:
    """Bring the database up to date. The exit code is 1 when a command refuses; its words go to stderr."""
    import django
    from django.core.management import CommandError, call_command

    django.setup()
    try:
        call_command("migrate", interactive=False, verbosity=1)
        call_command("bootstrap")
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(set_up())
