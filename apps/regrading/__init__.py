"""Grading anew what was answered before: a second set of grades beside the first, and who changed sides."""
