"""What happened, in order, unalterable."""
