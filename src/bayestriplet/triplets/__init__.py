"""Triplets drawn from class distributions, the losses over them, and the baselines."""
