"""The ticket desk: a small world in which every attempt can be verified."""
