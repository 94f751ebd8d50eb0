"""What people say to an agent, read for what it tells of the agent's work."""
