"""Networks in ONNX files: how any is started, and a frozen encoder of any origin. No torch."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayestriplet.errors import InputError, MissingDependencyError, reason_of

PREFIX = "onnx:"
LIMIT = 2_000_000_000  # bytes of a file
BATCH = 32  # images at a time: large networks need much memory for each
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class OnnxBackbone:
    """An opened ONNX file from images to features, and the form of its input."""

    path: Path
    session: Any
    sha256: str
    input: str
    output: str
    type: Any
    """NumPy's, of the input."""
    shape: tuple[int, int, int, int]
    """B, C, H, W of the input; 0 for any."""
    channels_last: bool
    metadata: dict[str, str]

    @property
    def channels(self) -> int:
        """1 or 3; 3 where the file leaves it open."""
        return self.shape[1] or 3

    @property
    def size(self) -> int:
        """Images are size x size; 0 where the file leaves it open."""
        return self.shape[2]

    def describe(self, images: Floats) -> Floats:
        """Return the features (b, F) of standardised images (b, C, H, W)."""
        parts = [self._run(images[start : start + self._step]) for start in self._starts(len(images))]
        features = np.concatenate(parts).astype(np.float32, copy=False)
        if not np.isfinite(features).all():
            raise InputError(
                f"{self.path} makes features that are not finite; check --input-mean and the like"
            )
        return features

    @property
    def _step(self) -> int:
        return self.shape[0] or BATCH

    def _starts(self, number: int) -> range:
        return range(0, max(number, 1), self._step)

    def _run(self, images: Floats) -> Floats:
        """Return the features of at most as many images as are run at a time."""
        number = len(images)
        if self.shape[0]:  # a file may be for batches of one length alone
            images = np.pad(images, [(0, self.shape[0] - number), (0, 0), (0, 0), (0, 0)])
        given = images.transpose(0, 2, 3, 1) if self.channels_last else images
        try:
            values = self.session.run([self.output], {self.input: np.ascontiguousarray(given, self.type)})[0]
        except Exception as error:  # its errors have no common base
            form = " x ".join(map(str, images.shape[1:]))
            raise InputError(f"{self.path} fails on images of {form}: {reason_of(error)}") from None
        if values.ndim != 2 or len(values) != len(images):
            raise InputError(_wrong_output(self.path, self.output, values.shape))
        features: Floats = values[:number]
        return features


def split_output(backbone: str) -> tuple[Path, str]:
    """Return the file of "onnx:FILE" or "onnx:FILE#OUTPUT", and the output that is named."""
    text = backbone.removeprefix(PREFIX)
    file, mark, output = text.rpartition("#")
    if not mark or Path(text).is_file():
        return Path(text).expanduser(), ""
    return Path(file).expanduser(), output


def open_backbone(path: Path, output: str = "", sha256: str = "") -> OnnxBackbone:
    """Open an encoder that is to have this SHA-256, and check that it makes vectors of images."""
    content = read_checked(path, sha256)
    session = start_session(content, path, "ONNX")
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1:
        raise InputError(f"{path} has {len(inputs)} inputs ({_names(inputs)}); one is needed: the images")
    shape, channels_last = _read_shape(path, inputs[0])
    chosen = _choose_output(path, outputs, output)
    return OnnxBackbone(
        path,
        session,
        hashlib.sha256(content).hexdigest(),
        inputs[0].name,
        chosen.name,
        TYPES[inputs[0].type],
        shape,
        channels_last,
        dict(session.get_modelmeta().custom_metadata_map),
    )


def read_checked(path: Path, sha256: str = "") -> bytes:
    """Return the content of a file that is not too large and has this SHA-256, if one is known."""
    try:
        if (size := path.stat().st_size) > LIMIT:
            raise InputError(
                f"{path} has {size / 1e9:.1f} GB; ONNX files of up to {LIMIT / 1e9:.0f} GB are read"
            )
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason_of(error).lower()}") from None
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256:
        raise InputError(
            f"{path} has SHA-256 {found[:12]}..., not {sha256[:12]}... as recorded: "
            "bring back the file that was trained with, or train again"
        )
    return content


def refuse_external_data(path: Path) -> None:
    """Raise where tensors of an ONNX file lie in other files, which no hash of this one would cover."""
    content = read_checked(path)
    try:
        import onnx
    except ImportError as error:
        raise MissingDependencyError(
            "a backbone from an ONNX file needs onnx: pip install 'bayestriplet[train,search]'"
        ) from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:
        raise InputError(f"{path} cannot be read as ONNX: {reason_of(error)}") from None
    for tensor in _tensors_of(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise InputError(
                f"{path} keeps tensors in other files (first: {tensor.name}): save it as one file, "
                "with save_as_external_data=False or torch.onnx's external_data=False"
            )


def start_session(model: Path | bytes, path: Path, what: str) -> Any:
    """Return a session of ONNX Runtime on the CPU for the file at ``path``, read already or not."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "searching, and backbones from ONNX files, need ONNX Runtime: pip install 'bayestriplet[search]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised as well
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal():  # ONNX Runtime has threads of its own and does not look there
        options.intra_op_num_threads = int(threads)
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base
        raise InputError(f"{path} cannot be read as {what}: {reason_of(error)}") from None


def _choose_output(path: Path, outputs: list[Any], wanted: str) -> Any:
    """Return the output that is named, or the only one, if it can be one vector per image."""
    if len(outputs) != 1 and not wanted:
        raise InputError(
            f"{path} has {len(outputs)} outputs ({_names(outputs)}): name one, onnx:FILE#{outputs[-1].name}"
        )
    found = [one for one in outputs if not wanted or one.name == wanted]
    if not found:
        raise InputError(f"{path} has no output {wanted!r}; it has {_names(outputs)}")
    (chosen,) = found
    if chosen.type not in TYPES or (chosen.shape and len(chosen.shape) != 2):
        raise InputError(_wrong_output(path, chosen.name, chosen.shape))
    return chosen


def _wrong_output(path: Path, name: str, shape: Any) -> str:
    form = ", ".join("?" if one is None else str(one) for one in shape)
    return (
        f"{path}: its output {name!r} has shape ({form}); floating-point features (B, F) are needed, one "
        "vector per image: export the network with its pooling, or name another output as onnx:FILE#NAME"
    )


def _read_shape(path: Path, given: Any) -> tuple[tuple[int, int, int, int], bool]:
    """Return B, C, H and W of an input, 0 for any, and whether the channels come last."""
    form = [one if isinstance(one, int) and one > 0 else 0 for one in given.shape]
    if len(form) != 4 or given.type not in TYPES:
        raise InputError(
            f"{path}: its input {given.name!r} must be floating-point images (B, C, H, W) or (B, H, W, C); "
            f"got {given.type} of shape ({', '.join(map(str, given.shape))})"
        )
    channels_last = form[1] not in (1, 3) and form[3] in (1, 3)
    batch, channels, height, width = (form[0], form[3], form[1], form[2]) if channels_last else form
    if channels not in (0, 1, 3) or height != width:
        raise InputError(
            f"{path} takes images of {channels} x {height} x {width}; square ones of 1 or 3 channels are made"
        )
    return (batch, channels, height, width), channels_last


def _names(values: list[Any]) -> str:
    return ", ".join(one.name for one in values)


def _tensors_of(model: Any) -> Iterator[Any]:
    """Yield every tensor that a model holds, those in the attributes of its nodes included."""
    nodes = [node for function in model.functions for node in function.node]
    graphs = [model.graph]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from (attribute.t, *attribute.tensors)
            graphs += [one for one in (attribute.g, *attribute.graphs) if one.ByteSize()]
