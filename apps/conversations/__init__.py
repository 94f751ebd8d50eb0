"""From conversations to tasks that teach."""
