"""The encoder as an ONNX file: what searching runs on, without torch."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from bayestriplet.errors import InputError, MissingDependencyError, reason_of
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.model.onnx_file import PREFIX


def export_onnx(encoder: Encoder, metadata: Mapping[str, str], path: Path) -> None:
    """Write the encoder, in eval mode, as a graph from images (B, C, H, W) in 0 .. 1 to vectors (B, D).

    ``metadata`` are kept in the file. One that takes vectors is a graph from ``vectors`` (B, F) to
    ``embeddings`` (B, D). After a backbone that is an ONNX file itself, the graph is that of the head,
    from features (B, F).
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "encoder.onnx needs onnx and onnxscript: pip install 'bayestriplet[train]'"
        ) from error
    info = encoder.info
    graph: Encoder | HeadEncoder = encoder
    # Two images: a batch of one would be taken for a constant.
    example = torch.zeros(2, *((info.inputs,) if info.inputs else (info.channels, info.size, info.size)))
    names = ("vectors", "embeddings") if info.inputs else ("images", "vectors")
    if info.backbone.startswith(PREFIX):  # that part is an ONNX file already, and runs before this one
        graph, example, names = HeadEncoder(encoder), encoder.describe(example), ("features", "vectors")
    try:
        with _quiet():
            program = torch.onnx.export(
                graph.eval(),
                (example,),
                dynamo=True,
                input_names=names[:1],
                output_names=names[1:],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
    except Exception as error:  # a backbone of the user's may use anything
        raise InputError(
            f"backbone {info.backbone!r} cannot be written as ONNX: {reason_of(error)}"
        ) from None
    if program is None:
        raise InputError(f"backbone {info.backbone!r} cannot be written as ONNX")
    for node in program.model.graph:
        node.metadata_props.clear()  # where in this machine's files each operation was traced
    program.model.metadata_props.update(metadata)
    program.save(path, external_data=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from telling about packages that are not installed and its own innards."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
