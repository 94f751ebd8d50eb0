"""Runs that another tool made, read out of the files it wrote: what was asked, answered and graded, and by whom."""
