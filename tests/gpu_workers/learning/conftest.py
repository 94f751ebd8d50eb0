"""One torch thread: a second one only waits for the first at these sizes."""

import torch

torch.set_num_threads(1)
