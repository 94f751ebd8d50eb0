"""One torch thread: a second one only waits for the first at these sizes. No deadline: a busy machine is not a bug."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("torch", deadline=None)
settings.load_profile("torch")
