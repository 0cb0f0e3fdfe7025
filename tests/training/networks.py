"""A backbone small enough for tests."""

import time

from torch import nn


def small(channels, dim):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4 * 4, dim)
    )


def wide(channels, dim):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, dim + 1))


def narrow(channels, dim):
    return nn.Sequential(nn.Flatten(), nn.Linear(7, dim))


def tied(channels, dim):
    layers = [nn.Linear(64 * channels, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)]
    layers[2].weight = layers[1].weight
    return nn.Sequential(nn.Flatten(), *layers)


def broken_after_a_while(channels, dim):
    time.sleep(10)
    return "not a module"


def broken(channels, dim):
    return "not a module"
