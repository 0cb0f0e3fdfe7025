"""The data sets there are by name, and how anything a user types is opened."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from bayestriplet.checks import VECTORS, check_split_by, check_whole, is_vectors, nearest
from bayestriplet.data.cub import list_cub
from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.decoded import examine_once
from bayestriplet.data.depth import FULL
from bayestriplet.data.digits import open_digits
from bayestriplet.data.files import Examined, check_examined, examine, leave_out_bad, take_listed
from bayestriplet.data.folder import list_crc, list_folder
from bayestriplet.data.listing import Listing
from bayestriplet.data.manifest import list_manifest
from bayestriplet.data.mnist import open_mnist
from bayestriplet.data.named_sets import EXAMPLES, SOURCES
from bayestriplet.data.npz import open_npz
from bayestriplet.data.omniglot import list_omniglot
from bayestriplet.data.progress import Progress
from bayestriplet.data.resizing import resize
from bayestriplet.data.splits import choose_per_class
from bayestriplet.data.splitting import divide, refuse_own_splits, split_listing
from bayestriplet.data.vector_files import list_vectors, open_vectors, refuse_image_options
from bayestriplet.data.vectors import LabelledVectors
from bayestriplet.errors import DataError, InputError

Look = Callable[[Listing], Examined]
DIGITS = Path("digits")  # the one set in memory without splits of its own
PREFIXES = (*EXAMPLES, VECTORS)  # names that a path follows
FOLDERS = {"crc": list_crc, "omniglot": list_omniglot, "cub": list_cub}


def open_data(
    data: str,
    *,
    seed: int = 0,
    split_by: str | None = None,
    per_class: int | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    follow_links: bool = False,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> LabelledImages:
    """Return a data set by name (mnist, crc:FOLDER, vectors:FILE, ...) or path (folder, .csv, .npz).

    Every image file is decoded once first; a bad one is an error unless ``skip_bad``. ``seed``
    decides the splits that the source leaves open and which at most ``per_class`` training items a
    class are kept; validation and test stay whole. ``split_by`` is what is never in two splits: "item",
    "group", "class", or "class:FILE" with the split of every class; None is by group where groups are
    known, else by item. ``size`` is the side the images are resized to.
    Links that leave a folder are followed with ``follow_links``. A folder ``cache`` keeps decoded pixels.
    """
    if per_class is not None:
        check_whole("per_class", per_class, 1)
    if is_vectors(data):
        refuse_image_options(data, size, skip_bad)
        images: LabelledImages = _open_vectors(data, seed, split_by, follow_links)
        return images if per_class is None else _keep(images, per_class, seed)
    take: Look = partial(examine, seed=seed, size=size, progress=progress)
    if cache is not None:
        once = partial(examine_once, seed=seed, size=size, cache=Path(cache), progress=progress)
        take = partial(once, follow_links=follow_links, skip_bad=skip_bad)
    look = _examining(size, take, split_by, seed)
    examined, source = _open(data, seed, look, progress, follow_links=follow_links)
    images = _split_in_memory(check_examined(examined, source, skip_bad), split_by, seed, source)
    images = images if per_class is None else _keep(images, per_class, seed)
    return resize(images, size, progress)


def _keep(images: LabelledImages, per_class: int, seed: int) -> LabelledImages:
    return images.subset(choose_per_class(images.labels, images.splits, per_class, seed))


def examine_data(
    data: str,
    *,
    seed: int = 0,
    split_by: str | None = None,
    size: int | None = None,
    follow_links: bool = False,
    progress: Progress | None = None,
) -> Examined:
    """Return what :func:`open_data` would find, bad files listed instead of raised."""
    if is_vectors(data):
        refuse_image_options(data, size, skip_bad=False)
        vectors = _open_vectors(data, seed, split_by, follow_links)
        return Examined(vectors, seen=((f"vectors of length {vectors.length}", len(vectors)),))
    look = _examining(size, partial(examine, seed=seed, size=size, progress=progress), split_by, seed)
    examined, source = _open(data, seed, look, progress, follow_links=follow_links)
    images = _split_in_memory(examined.images, split_by, seed, source)
    return replace(examined, images=resize(images, size, progress))


def list_data(
    data: str,
    *,
    size: int,
    channels: int,
    bits: int = 16,
    invert: bool = False,
    skip_bad: bool = False,
    follow_links: bool = False,
    progress: Progress | None = None,
) -> LabelledImages:
    """Return all items of a data set, whose image files are to be read in this form.

    They are opened only to find the bad ones with ``skip_bad``. One class is enough, and files
    without any, in a folder or a manifest, are of the class "". What is in memory keeps its own channels.
    16-bit files that do not declare their bits are scaled by ``bits``. With ``invert`` all files are read
    with dark and light exchanged, as those of Omniglot are anyway.
    """
    check_whole("size", size, 1)
    if check_whole("bits", bits, 1) > FULL:
        raise InputError(f"bits must be at most {FULL}; got {bits}")

    def look(listing: Listing) -> Examined:
        inverted = replace(listing, invert=listing.invert or invert)
        return Examined(take_listed(inverted, size, channels, bits=bits))

    examined, _ = _open(data, 0, look, progress, labelled=False, follow_links=follow_links)
    images = examined.images
    if skip_bad and images.paths is not None:
        images = leave_out_bad(images, progress)
    return resize(images, size, progress)


def _open_vectors(data: str, seed: int, split_by: str | None, follow_links: bool) -> LabelledVectors:
    check_whole("seed", seed, 0)
    return open_vectors(vectors_path(data), seed=seed, split_by=split_by, follow_links=follow_links)


def list_vector_data(data: str, *, follow_links: bool = False) -> LabelledVectors:
    """Return all items of vectors:FILE, with or without labels."""
    return list_vectors(vectors_path(data), follow_links=follow_links)


def vectors_path(data: str) -> Path:
    """Return the path of vectors:FILE."""
    where = data.partition(":")[2]
    if not where:
        raise InputError("vectors needs to know where they are, such as vectors:features.npz")
    return _to_path(where)


def absolute_data(data: str) -> str:
    """Return ``data`` with its path made absolute, so that it means the same from any folder."""
    name, colon, rest = data.partition(":")
    if colon and name in PREFIXES and rest:
        return f"{name}:{_to_path(rest).absolute()}"
    return str(_to_path(data).absolute()) if data not in SOURCES and _to_path(data).exists() else data


def check_name(name: str) -> str:
    """Return ``name`` if it is a named data set."""
    if name in SOURCES:
        return name
    raise InputError(
        f"there is no data set {name!r}{nearest(name, SOURCES)} (named sets: {', '.join(SOURCES)}; "
        f"or the path of a folder with one subfolder per class, of a .csv manifest or of an .npz file, "
        f"or vectors:FILE)"
    )


def _examining(size: int | None, take: Look, split_by: str | None, seed: int) -> Look:
    """Return how files are taken that are to be trained on: of at least two classes, split as asked."""
    if size is not None:
        check_whole("size", size, 1)
    if split_by is not None:
        check_split_by(split_by)

    def look(listing: Listing) -> Examined:
        _check_class_number(listing.classes, listing.source)
        return take(split_listing(listing, split_by, seed))

    return look


def _split_in_memory(images: LabelledImages, split_by: str | None, seed: int, source: Path) -> LabelledImages:
    """Return a set in memory split as asked; files are split before they are opened."""
    if split_by is None or images.paths is not None:
        return images
    if source != DIGITS:
        refuse_own_splits(source, split_by)
    if split_by == "item":  # as they are
        return images
    return replace(
        images, splits=divide(split_by, images.classes, images.labels, images.groups, seed, source)
    )


def _open(
    data: str,
    seed: int,
    look: Look,
    progress: Progress | None,
    *,
    labelled: bool = True,
    follow_links: bool = False,
) -> tuple[Examined, Path]:
    check_whole("seed", seed, 0)
    data = os.fspath(data)
    name, colon, rest = data.partition(":")
    try:
        if name in SOURCES:
            return _open_named(name, rest if colon else None, seed, look, progress, follow_links)
        return _open_path(data, look, labelled, follow_links)
    except OSError as error:  # a name too long, a folder without permission, a drive that went away
        raise DataError(f"{error.filename or data} cannot be read: {error.strerror or error}") from error


def _open_path(data: str, look: Look, labelled: bool, follow_links: bool) -> tuple[Examined, Path]:
    path = _to_path(data)
    if data and path.is_dir():
        return look(list_folder(path, labelled, follow_links=follow_links)), path
    if path.suffix.lower() == ".csv" and path.is_file():
        return look(list_manifest(path, labelled)), path
    if path.suffix.lower() == ".npz" and path.is_file():
        return _in_memory(open_npz(path), path), path
    if data and path.exists():
        raise DataError(f"{path} is neither a folder of images, a .csv manifest nor an .npz file")
    if ":" in data or (len(path.parts) <= 1 and not path.suffix):
        check_name(data.partition(":")[0])
    raise DataError(f"there is no file or folder {path}")


def _open_named(
    name: str, where: str | None, seed: int, look: Look, progress: Progress | None, follow_links: bool
) -> tuple[Examined, Path]:
    if name in EXAMPLES:
        if not where:
            raise InputError(
                f"{name} needs to know where it is: {EXAMPLES[name]}; see 'bayestriplet data get {name}'"
            )
        path = _to_path(where)
        if not path.exists():
            raise DataError(f"there is no file or folder {path}; see 'bayestriplet data get {name}'")
        if name in FOLDERS:
            return look(FOLDERS[name](path, follow_links=follow_links)), path
        return _in_memory(open_npz(path), path), path
    if where is not None:
        raise InputError(f"{name} takes no path; got {name}:{where}")
    images = open_mnist(seed, progress) if name == "mnist" else open_digits(seed)
    return _in_memory(images, Path(name)), Path(name)


def _to_path(text: str) -> Path:
    """Return the path with ``~`` replaced, where there is such a user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _check_class_number(classes: tuple[str, ...], source: Path) -> None:
    if len(classes) < 2:
        raise DataError(f"{source} has the single class {classes[0]!r}; at least two are needed")


def _in_memory(images: LabelledImages, source: Path) -> Examined:
    _check_class_number(images.classes, source)
    mode = "L" if images.channels == 1 else "RGB"
    return Examined(images, seen=((f"{images.size} x {images.size} {mode}", len(images)),))
