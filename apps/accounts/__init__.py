"""People, agents and what they may do."""
