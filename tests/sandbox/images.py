"""An image to start from."""

from pathlib import Path


def make_image(directory: Path) -> Path:
    """A small one: a note, a list to delete, a directory, a link, a program."""
    work = directory / "work"
    (work / "notes" / "old").mkdir(parents=True)
    (work / "hello").write_text("hello\n")
    (work / "notes" / "one").write_text("1\n")
    (work / "notes" / "old" / "two").write_text("2\n")
    (work / "link").symlink_to("notes/one")
    (work / "program").write_text("#!/bin/sh\necho $0 $#\n")
    (work / "program").chmod(0o755)
    return directory
