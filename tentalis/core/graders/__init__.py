"""What graders look for, by plain rules."""
