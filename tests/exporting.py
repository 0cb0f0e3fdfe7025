"""Torch reads the sources of 500 operators for every ONNX export; in tests once a process is enough."""

import functools
import sys

EXPORTER = "torch.onnx._internal.exporter."


def remember_operators():
    """Keep what the exporter has read, if it is loaded: the same graph comes out in half the time."""
    registration = sys.modules.get(EXPORTER + "_registration")
    decompositions = sys.modules.get(EXPORTER + "_decomp")
    if registration is None or decompositions is None or hasattr(registration, "is_remembered"):
        return
    registration.is_remembered = True
    registry = registration.ONNXRegistry
    registry.from_torchlib = staticmethod(functools.cache(registry.from_torchlib))
    make_table = functools.cache(decompositions.create_onnx_friendly_decomposition_table)
    decompositions.create_onnx_friendly_decomposition_table = lambda names: make_table(frozenset(names))
