"""Omniglot: drawn characters of fifty alphabets, with other alphabets to test on."""

from dataclasses import replace
from pathlib import Path

from bayestriplet.data.folder import FolderReader, FoundImage, Inside, check_classes, collect, count_ignored
from bayestriplet.data.listing import Listing
from bayestriplet.errors import DataError

BACKGROUND, EVALUATION = "images_background", "images_evaluation"
VALIDATION = 5  # background alphabets, the last ones by name
SIZE = 28


def list_omniglot(root: Path, *, follow_links: bool = False) -> Listing:
    """Return Omniglot as its two zip files unpack: alphabet/character/*.png in either folder.

    A class is a character, "alphabet/character". The evaluation alphabets are to test on, the last five of
    the background by name to validate, the others to train on. Ink is read as white on black.
    """
    reader = FolderReader.of(root, follow_links)
    top = reader.look_into(root)
    parts = {folder.name: reader.look_into(folder) for folder in top.folders}
    if missing := [name for name in (BACKGROUND, EVALUATION) if name not in parts]:
        raise DataError(
            f"{root} lacks {' and '.join(missing)}; unpack {BACKGROUND}.zip and {EVALUATION}.zip there"
        )
    split_of = _split_alphabets(root, parts)
    found: list[FoundImage] = []
    ignored, links = top.ignored + len(top.images), top.links
    for part in (BACKGROUND, EVALUATION):
        for alphabet in parts[part].folders:
            inside = reader.look_into(alphabet)
            characters = {folder.name: reader.look_into(folder) for folder in inside.folders}
            check_classes(alphabet, inside, characters)
            for name, drawings in characters.items():
                label = f"{alphabet.name}/{name}"
                found += [FoundImage(path, label, "", split_of[alphabet]) for path in drawings.images]
            more, linked = count_ignored(inside, characters)
            ignored, links = ignored + more, links + linked
    listing = collect(root, found, ignored, links)
    return replace(listing, name="omniglot", kind="digits", size=SIZE, invert=True)


def _split_alphabets(root: Path, parts: dict[str, Inside]) -> dict[Path, str]:
    """Return the split of every alphabet's folder."""
    background, evaluation = parts[BACKGROUND].folders, parts[EVALUATION].folders
    if len(background) <= VALIDATION or not evaluation:
        raise DataError(
            f"{root} has {len(background)} alphabets in {BACKGROUND} and {len(evaluation)} in {EVALUATION}; "
            f"at least {VALIDATION + 1} and 1 are needed"
        )
    if twice := {path.name for path in background} & {path.name for path in evaluation}:
        raise DataError(f"{root} has the alphabet {min(twice)} in both folders; it must be in one")
    return {
        **dict.fromkeys(background[:-VALIDATION], "train"),
        **dict.fromkeys(background[-VALIDATION:], "val"),
        **dict.fromkeys(evaluation, "test"),
    }
