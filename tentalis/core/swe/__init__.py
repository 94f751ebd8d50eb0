"""Tasks in repositories: patches, what must not be touched, what tests come to, and tasks that are made up."""
