"""`python -m tentalis` is the `tentalis` command."""

from tentalis.cli import main

main()
