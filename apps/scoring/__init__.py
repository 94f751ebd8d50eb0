"""Scorers, votes, calibration."""
