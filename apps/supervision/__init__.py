"""People at a running worker's side: what it wants to do next waits for their word."""
