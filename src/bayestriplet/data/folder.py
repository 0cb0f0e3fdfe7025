"""Folders of images: one subfolder per class, below train, val and test or not, with slide folders or not."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayestriplet.data.images import SUFFIXES
from bayestriplet.data.listing import Listing
from bayestriplet.data.npz import TISSUES
from bayestriplet.data.splits import SPLITS, check_groups_apart
from bayestriplet.errors import DataError

LAYOUT = "expected a folder of images for every class, such as cats/1.png and dogs/1.png"
READ = ", ".join(suffix[1:] for suffix in SUFFIXES)
SLIDES = (".svs", ".ndpi", ".mrxs", ".scn", ".vms", ".vmu", ".bif", ".czi")
PHOTOS = (".heic", ".heif", ".avif")


@dataclass
class Inside:
    """The content of one folder; what is hidden, of another type or elsewhere is only counted."""

    folders: list[Path] = field(default_factory=list)
    images: list[Path] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    """Of a class, the slide folder of each image; empty for one that lies directly in the class folder."""
    ignored: int = 0
    links: int = 0
    """Those of the ignored that are links to what lies outside the set's folder."""
    suffixes: set[str] = field(default_factory=set)
    """Types of the files that are not read."""


@dataclass(frozen=True)
class FolderReader:
    """Looks into the folders of a set, at links as they are to be taken."""

    home: Path
    """The set's folder, without links in its path."""
    follow_links: bool

    @classmethod
    def of(cls, root: Path, follow_links: bool) -> "FolderReader":
        """Return the reader of a set's folder."""
        return cls(Path(os.path.realpath(root)), follow_links)

    def look_into(self, folder: Path) -> Inside:
        """Return the content of one folder, sorted by name."""
        inside = Inside()
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            raise DataError(f"{folder} cannot be read: {error.strerror}") from error
        for path in entries:
            _check_encoding(path)
            hidden = path.name.startswith(".") or path.name == "__MACOSX"
            if hidden or (path.is_symlink() and self._leaves_out(path, inside)):
                inside.ignored += 1
            elif path.is_dir():
                inside.folders.append(path)
            elif path.suffix.lower() in SUFFIXES and path.is_file():
                inside.images.append(path)
            else:
                inside.ignored += 1
                inside.suffixes.add(path.suffix.lower())
        return inside

    def add_slides(self, inside: Inside) -> Inside:
        """Return the content of a class folder with that of the slide folders in it."""
        inside.groups = [""] * len(inside.images)
        for slide in inside.folders:
            tiles = self.look_into(slide)
            for deeper in map(self.look_into, tiles.folders):
                if deeper.images or deeper.folders:
                    raise DataError(
                        f"slide folder {slide} holds folders of its own: images must lie directly in "
                        f"a class folder, or in a slide folder directly in that"
                    )
            inside.images += tiles.images
            inside.groups += [slide.name] * len(tiles.images)
            inside.ignored += tiles.ignored + len(tiles.folders) if tiles.images else 1
            inside.links += tiles.links
            inside.suffixes |= tiles.suffixes
        return inside

    def _leaves_out(self, link: Path, inside: Inside) -> bool:
        """Whether a link is broken, leads back to a folder it lies in, or to what must not be followed."""
        target = Path(os.path.realpath(link))
        if not target.exists() or Path(os.path.realpath(link.parent)).is_relative_to(target):
            return True
        if self.follow_links or target.is_relative_to(self.home):
            return False
        inside.links += 1
        return True


def list_folder(root: Path, labelled: bool = True, *, follow_links: bool = False) -> Listing:
    """Return the images of a folder; classes and files are sorted by name.

    Images lie directly in the class folders, or in slide folders in these, whose names are their groups;
    unless they have to be ``labelled``, they may lie in ``root`` alone, and their class is "". Links to
    what lies outside ``root`` are followed only with ``follow_links``, and those that lead back to a
    folder they lie in never.
    """
    reader = FolderReader.of(root, follow_links)
    top = reader.look_into(root)
    holds = {folder.name: reader.look_into(folder) for folder in top.folders}
    split_folders = [name for name in SPLITS if name in holds and _is_split_folder(holds[name])]
    if split_folders or (holds and set(holds) <= set(SPLITS)):  # images directly in train are no class
        return _list_split_folders(root, reader, top, holds)
    if not labelled and top.images and not holds:
        return collect(root, [FoundImage(path) for path in top.images], top.ignored, top.links)
    holds = {name: reader.add_slides(inside) for name, inside in holds.items()}
    check_classes(root, top, holds)
    return collect(root, _find(holds), *count_ignored(top, holds))


def list_crc(root: Path, *, follow_links: bool = False) -> Listing:
    """Return NCT-CRC-HE-100K as it unpacks: nine folders of tissue tiles."""
    listing = list_folder(root, follow_links=follow_links)
    if listing.classes != TISSUES:
        missing = ", ".join(sorted(set(TISSUES) - set(listing.classes))) or "none"
        extra = ", ".join(sorted(set(listing.classes) - set(TISSUES))) or "none"
        raise DataError(
            f"{root} does not have the nine class folders of NCT-CRC-HE-100K: "
            f"missing {missing}; not its own {extra}"
        )
    return replace(listing, name="crc", kind="histology", size=224)


def _is_split_folder(inside: Inside) -> bool:
    return bool(inside.folders) and not inside.images


def _list_split_folders(root: Path, reader: FolderReader, top: Inside, holds: dict[str, Inside]) -> Listing:
    if other := [name for name in holds if name not in SPLITS]:
        raise DataError(f"{root} has {', '.join(other)} beside train, val or test; rename or move them")
    if "train" not in holds:
        raise DataError(f"{root} has {' and '.join(holds)} but no train folder")
    found: list[FoundImage] = []
    ignored, links = top.ignored + len(top.images), top.links
    for split, inside in holds.items():
        classes = {folder.name: reader.add_slides(reader.look_into(folder)) for folder in inside.folders}
        check_classes(root / split, inside, classes)
        found += _find(classes, split)
        more, linked = count_ignored(inside, classes)
        ignored, links = ignored + more, links + linked
    return collect(root, found, ignored, links)


def check_classes(root: Path, top: Inside, holds: dict[str, Inside]) -> None:
    """Raise unless a folder holds class folders, and each of these images."""
    if not holds and not top.images and not top.ignored:
        raise DataError(f"{root} is empty; {LAYOUT}")
    if not holds and top.links:
        raise DataError(f"{root} has no class folders{_describe_links(top.links)}")
    if not holds and not top.images and (only := _describe_type(top)):
        raise DataError(f"{root} holds no images ({READ}){only}")
    if not holds:
        raise DataError(f"{root} has files but no class folders; {LAYOUT}")
    for name, inside in holds.items():
        if not inside.images:
            nested = ", neither directly nor in its folders" if inside.folders else ""
            why = _describe_links(inside.links) or _describe_type(inside) or nested
            raise DataError(f"class folder {root / name} holds no images ({READ}){why}")


def _describe_links(count: int) -> str:
    if not count:
        return ""
    if count == 1:
        return "; 1 link leads outside the folder and is not followed: follow it with --follow-links"
    return f"; {count} links lead outside the folder and are not followed: follow them with --follow-links"


def _describe_type(inside: Inside) -> str:
    """Name the type of the files in a folder without images if they have one in common."""
    if len(inside.suffixes) != 1 or inside.suffixes == {""}:
        return ""
    (suffix,) = inside.suffixes
    if suffix in SLIDES:
        return f", only {suffix} files; cut whole slides into tiles first"
    if suffix in PHOTOS:
        return f", only {suffix} files; convert them to PNG or JPEG"
    return f", only {suffix} files, which are not read"


class FoundImage(NamedTuple):
    """An image, and what its folders say of it."""

    path: Path
    label: str = ""
    group: str = ""
    split: str | None = None


def _find(classes: dict[str, Inside], split: str | None = None) -> list[FoundImage]:
    """Return the images of class folders."""
    return [
        FoundImage(path, name, group, split)
        for name, inside in classes.items()
        for path, group in zip(inside.images, inside.groups, strict=True)
    ]


def collect(root: Path, found: Sequence[FoundImage], ignored: int, links: int) -> Listing:
    """Return the listing of files with what their folders say of them."""
    classes = tuple(sorted({one.label for one in found}))
    number = {name: k for k, name in enumerate(classes)}
    splits = None if found[0].split is None else np.array([one.split for one in found], dtype="<U5")
    groups = np.array([one.group for one in found]) if any(one.group for one in found) else None
    if splits is not None and groups is not None:
        check_groups_apart(root, splits, groups)
    return Listing(
        name=root.resolve().name,
        source=root,
        classes=classes,
        paths=tuple(one.path for one in found),
        ids=tuple(one.path.relative_to(root).as_posix() for one in found),
        labels=np.array([number[one.label] for one in found], dtype=np.int64),
        splits=splits,
        groups=groups,
        ignored=ignored,
        links=links,
    )


def count_ignored(top: Inside, holds: dict[str, Inside]) -> tuple[int, int]:
    """Count what is left out, and the links among it; a folder without images counts once."""
    ignored = top.ignored + len(top.images)
    ignored += sum(inside.ignored for inside in holds.values())
    return ignored, top.links + sum(inside.links for inside in holds.values())


def _check_encoding(path: Path) -> None:
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{path.parent} holds a name that is not UTF-8: {path.name!r}; rename it") from None
