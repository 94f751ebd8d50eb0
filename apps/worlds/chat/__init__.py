"""The plain conversation: a prompt in, an answer out."""
