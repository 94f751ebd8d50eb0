"""Text nobody here wrote, as pages may show it: escaped, its tricks made visible, its markup let through by a list."""

from apps.console.rendering.allowance import allowance_of, link_to_part
from apps.console.rendering.ansi import render_ansi
from apps.console.rendering.diffs import Diff, diff_lines, diff_words
from apps.console.rendering.hidden import visible
from apps.console.rendering.markdown import render_markdown
from apps.console.rendering.marks import Mark, render_marked
from apps.console.rendering.rich import MOST, Rich, has_markup, render_rich
from apps.console.rendering.stamps import Stamp, slot

__all__ = [
    "MOST",
    "Diff",
    "Mark",
    "Rich",
    "Stamp",
    "allowance_of",
    "diff_lines",
    "diff_words",
    "has_markup",
    "link_to_part",
    "render_ansi",
    "render_markdown",
    "render_marked",
    "render_rich",
    "slot",
    "visible",
]
