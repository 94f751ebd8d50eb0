"""What the environment of `doors_verifiers` asks about, for both sides of the door."""

ITEMS = ("lamp", "table", "chair", "door", "window", "box", "pan", "shelf", "mug", "kettle", "carpet", "clock")
