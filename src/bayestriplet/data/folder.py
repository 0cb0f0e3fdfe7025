"""Folders of images: a subfolder a class, below train, val and test or not."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bayestriplet.data.images import SUFFIXES
from bayestriplet.data.listing import Listing
from bayestriplet.data.npz import TISSUES
from bayestriplet.data.splits import SPLITS
from bayestriplet.errors import DataError

LAYOUT = "expected a folder of images for every class, such as cats/1.png and dogs/1.png"


@dataclass
class _Inside:
    """The content of one folder: what counts as hidden, foreign or outside is only counted."""

    folders: list[Path] = field(default_factory=list)
    images: list[Path] = field(default_factory=list)
    ignored: int = 0


def list_folder(root: Path, labelled: bool = True) -> Listing:
    """Return the images of a folder; classes and files are sorted by name.

    Images lie directly in the class folders; unless they have to be ``labelled``, they may lie in
    ``root`` alone, and their class is "". Links are followed only to what lies inside ``root``.
    """
    top = _look_into(root, root)
    holds = {folder.name: _look_into(folder, root) for folder in top.folders}
    ignored = top.ignored + len(top.images)
    split_folders = [name for name in SPLITS if name in holds and _is_split_folder(holds[name])]
    if split_folders or (holds and set(holds) <= set(SPLITS)):  # images directly in train are no class
        return _list_split_folders(root, holds, ignored)
    if not labelled and top.images and not holds:
        return _collect(root, [(None, "", path) for path in top.images], top.ignored)
    _check_classes(root, top, holds)
    found = [(None, name, path) for name, inside in holds.items() for path in inside.images]
    return _collect(root, found, ignored + sum(map(_count_ignored, holds.values())))


def list_crc(root: Path) -> Listing:
    """Return NCT-CRC-HE-100K as it unpacks: nine folders of tissue tiles."""
    listing = list_folder(root)
    if listing.classes != TISSUES:
        missing = ", ".join(sorted(set(TISSUES) - set(listing.classes))) or "none"
        extra = ", ".join(sorted(set(listing.classes) - set(TISSUES))) or "none"
        raise DataError(
            f"{root} does not have the nine class folders of NCT-CRC-HE-100K: "
            f"missing {missing}; not its own {extra}"
        )
    return replace(listing, name="crc", kind="histology", size=224)


def _is_split_folder(inside: _Inside) -> bool:
    return bool(inside.folders) and not inside.images


def _list_split_folders(root: Path, holds: dict[str, _Inside], ignored: int) -> Listing:
    if other := [name for name in holds if name not in SPLITS]:
        raise DataError(f"{root} has {', '.join(other)} beside train, val or test; rename or move them")
    if "train" not in holds:
        raise DataError(f"{root} has {' and '.join(holds)} but no train folder")
    found = []
    for split, inside in holds.items():
        classes = {folder.name: _look_into(folder, root) for folder in inside.folders}
        _check_classes(root / split, inside, classes)
        found += [(split, name, path) for name, in_class in classes.items() for path in in_class.images]
        ignored += inside.ignored + len(inside.images) + sum(map(_count_ignored, classes.values()))
    return _collect(root, found, ignored)


def _check_classes(root: Path, top: _Inside, holds: dict[str, _Inside]) -> None:
    if not holds and not top.images and not top.ignored:
        raise DataError(f"{root} is empty; {LAYOUT}")
    if not holds:
        raise DataError(f"{root} has files but no class folders; {LAYOUT}")
    for name, inside in holds.items():
        if not inside.images:
            nested = ", only folders; images must lie directly in it" if inside.folders else ""
            raise DataError(
                f"class folder {root / name} holds no images ({', '.join(s[1:] for s in SUFFIXES)}){nested}"
            )


def _collect(root: Path, found: Sequence[tuple[str | None, str, Path]], ignored: int) -> Listing:
    classes = tuple(sorted({name for _, name, _ in found}))
    number = {name: k for k, name in enumerate(classes)}
    has_splits = found[0][0] is not None
    return Listing(
        name=root.resolve().name,
        source=root,
        classes=classes,
        paths=tuple(path for _, _, path in found),
        ids=tuple(path.relative_to(root).as_posix() for _, _, path in found),
        labels=np.array([number[name] for _, name, _ in found], dtype=np.int64),
        splits=np.array([split for split, _, _ in found], dtype="<U5") if has_splits else None,
        ignored=ignored,
    )


def _count_ignored(inside: _Inside) -> int:
    """Folders inside a class folder are not looked into: each counts once."""
    return inside.ignored + len(inside.folders)


def _look_into(folder: Path, root: Path) -> _Inside:
    inside = _Inside()
    home = root.resolve()
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    for path in entries:
        try:
            path.name.encode()
        except UnicodeEncodeError:
            raise DataError(f"{folder} holds a name that is not UTF-8: {path.name!r}; rename it") from None
        hidden = path.name.startswith(".") or path.name == "__MACOSX"
        if hidden or (path.is_symlink() and not path.resolve().is_relative_to(home)):
            inside.ignored += 1
        elif path.is_dir():
            inside.folders.append(path)
        elif path.suffix.lower() in SUFFIXES and path.is_file():
            inside.images.append(path)
        else:
            inside.ignored += 1
    return inside
