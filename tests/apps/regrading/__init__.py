"""Tests of grading anew."""
