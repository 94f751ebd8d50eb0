"""Text nobody here wrote, as pages may show it: escaped, its tricks made visible, its markup let through by a list."""

from apps.console.rendering.ansi import render_ansi
from apps.console.rendering.diffs import Diff, diff_lines, diff_words
from apps.console.rendering.hidden import visible
from apps.console.rendering.markdown import render_markdown
from apps.console.rendering.marks import Mark, render_marked
from apps.console.rendering.rich import MOST, Rich, render_rich

__all__ = [
    "MOST",
    "Diff",
    "Mark",
    "Rich",
    "diff_lines",
    "diff_words",
    "render_ansi",
    "render_markdown",
    "render_marked",
    "render_rich",
    "visible",
]
