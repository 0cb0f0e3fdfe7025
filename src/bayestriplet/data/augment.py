"""Variations of training images that leave their class alone, a whole batch at a time."""

import math

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample

KINDS = ("digits", "histology", "photo")


def augment(images: Tensor, kind: str, generator: Generator) -> Tensor:
    """Vary images (B, C, H, W) with values in 0 .. 1, each in its own way.

    Digits are turned, scaled, sheared and moved a little. Tissue has no up or down and its stain
    varies: quarter turns, flips, gains of the colours. Photographs are mirrored and moved a little.
    """
    if kind == "digits":
        return _affine(images, generator, degrees=10, scale=0.1, shift=0.08, shear=0.1)
    if kind == "histology":
        return _jitter(_turn(images, generator), generator, gain=0.08, offset=0.05, colours=0.05)
    mirrored = torch.where(_chance(images, generator), images.flip(3), images)
    moved = _affine(mirrored, generator, degrees=8, scale=0.1, shift=0.06, shear=0.0)
    return _jitter(moved, generator, gain=0.15, offset=0.05, colours=0.03)


def _uniform(number: int, width: float, generator: Generator) -> Tensor:
    """Draw (B,) evenly from -width to width."""
    return (2 * torch.rand(number, generator=generator) - 1) * width


def _chance(images: Tensor, generator: Generator) -> Tensor:
    """Draw a coin for every image, (B, 1, 1, 1) bool."""
    return torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5


def _affine(
    images: Tensor, generator: Generator, degrees: float, scale: float, shift: float, shear: float
) -> Tensor:
    number = len(images)
    angle = _uniform(number, math.radians(degrees), generator)
    factor = 1 + _uniform(number, scale, generator)
    lean = _uniform(number, shear, generator)
    cos, sin = angle.cos() * factor, angle.sin() * factor
    move = [2 * _uniform(number, shift, generator) for _ in range(2)]
    first = torch.stack([cos, lean - sin, move[0]], 1)
    second = torch.stack([sin, cos, move[1]], 1)
    grid = affine_grid(torch.stack([first, second], 1), list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False)


def _turn(images: Tensor, generator: Generator) -> Tensor:
    """Turn by a random multiple of 90 degrees and mirror at random: the eight symmetries of a square."""
    images = torch.where(_chance(images, generator), images.flip(2), images)
    images = torch.where(_chance(images, generator), images.flip(3), images)
    return torch.where(_chance(images, generator), images.transpose(2, 3), images)


def _jitter(images: Tensor, generator: Generator, gain: float, offset: float, colours: float) -> Tensor:
    """Change contrast about the image's mean, brightness, and the gain of every colour."""
    number, channels = images.shape[:2]
    contrast = 1 + _uniform(number, gain, generator).view(-1, 1, 1, 1)
    brightness = _uniform(number, offset, generator).view(-1, 1, 1, 1)
    colour = 1 + _uniform(number * channels, colours, generator).view(number, channels, 1, 1)
    mean = images.mean((1, 2, 3), keepdim=True)
    return (((images - mean) * contrast + mean + brightness) * colour).clamp(0, 1)
