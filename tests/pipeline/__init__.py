"""The pipeline on real queue processes: what happens when a part of it dies, freezes, hangs or is poisoned."""
