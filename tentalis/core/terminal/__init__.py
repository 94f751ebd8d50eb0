"""The terminal world's tasks: small jobs at a shell, each with files, a right way to do it, and checks of what is left.

Whoever gives a task says what is wanted; how the house wants it done only its manager knows.
"""
