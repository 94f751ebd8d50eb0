"""Scores of steps and attempts: what they mean, how they are asked for, combined and compared. No I/O."""
