"""Model endpoints and the recorded calls."""
