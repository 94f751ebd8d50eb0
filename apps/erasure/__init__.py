"""Erasing a person (GDPR) and unlearning what they taught; `erase.py` is the whole of it, step by step."""
