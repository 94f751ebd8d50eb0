"""What happened, told to the addresses that want to know."""
