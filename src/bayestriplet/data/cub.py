"""CUB-200-2011: photographs of 200 species of birds, half of which are to test on."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayestriplet.data.folder import list_folder
from bayestriplet.data.listing import Listing
from bayestriplet.errors import DataError

TRAINED, DEVELOPED, SPECIES = 80, 100, 200  # the last numbers of train, val and test
SIZE = 224


def list_cub(root: Path, *, follow_links: bool = False) -> Listing:
    """Return CUB-200-2011 as it unpacks: images/NNN.name/*.jpg.

    Species 1 to 80 are to train on, 81 to 100 to validate, and 101 to 200 to test on.
    """
    if not (root / "images").is_dir():
        raise DataError(f"{root} has no folder images; name CUB_200_2011, to which the archive unpacks")
    listing = list_folder(root / "images", follow_links=follow_links)
    numbers = np.array([_number_of(root, name) for name in listing.classes])
    splits = np.array(["train", "val", "test"])[np.searchsorted((TRAINED, DEVELOPED), numbers)]
    if missing := [split for split in ("train", "val", "test") if split not in splits]:
        raise DataError(
            f"{root} lacks the species of {' and '.join(missing)}: 1 to {TRAINED} are to train on, "
            f"to {DEVELOPED} to validate, to {SPECIES} to test on; unpack the archive again"
        )
    return replace(
        listing, name="cub", source=root, splits=splits[listing.labels].astype("<U5"), kind="photo", size=SIZE
    )


def _number_of(root: Path, name: str) -> int:
    """Return the number of a species from the name of its folder, such as 001.Black_footed_Albatross."""
    found = re.match(r"(\d{3})\.", name)
    if not found or not 1 <= int(found.group(1)) <= SPECIES:
        raise DataError(
            f"{root / 'images' / name} is no class of CUB-200-2011: its name must begin with 001. to 200."
        )
    return int(found.group(1))
