"""Shared settings: one thread a test process, so that parallel tests do not fight for the cores."""

import torch

torch.set_num_threads(1)
