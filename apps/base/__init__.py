"""Error root, abstract models, system checks."""
