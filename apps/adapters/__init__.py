"""Gate, promotion, hot-swap, roll back."""
