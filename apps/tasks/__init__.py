"""Submit, work, answer, cancel."""
