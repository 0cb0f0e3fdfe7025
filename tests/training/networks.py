"""A backbone small enough for tests."""

from torch import nn


def small(channels, dim):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4 * 4, dim)
    )


def broken(channels, dim):
    return "not a module"
