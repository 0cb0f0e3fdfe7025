"""Embeddings, labels and groups as users give them, checked and as arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.evaluation.neighbours import OwnGroups


def check_groups(
    groups: ArrayLike | None, gallery_groups: ArrayLike | None, queries: int, items: int | None
) -> OwnGroups | None:
    """Return the numbered groups of queries and gallery items; ``items`` is None where they are the same."""
    if items is None and gallery_groups is not None:
        raise InputError("gallery_groups needs a gallery: without one, groups are those of both")
    if items is not None and (groups is None) != (gallery_groups is None):
        raise InputError("groups and gallery_groups must be given together")
    own = check_names(groups, queries, "groups")
    if own is None:
        return None
    others = own if items is None else check_names(gallery_groups, items, "gallery_groups")
    if others is None or own.dtype.kind != others.dtype.kind:
        raise InputTypeError("groups and gallery_groups must both be names, or both be integers")
    return OwnGroups.of(own, others)


def check_names(values: ArrayLike | None, number: int, name: str) -> NDArray[Any] | None:
    """Return names or integers (n,) as an array, checked; integers as int64."""
    if values is None:
        return None
    found = _to_array(values)
    if found.shape != (number,):
        raise InputError(f"{name} must have shape ({number},), one per item; got {found.shape}")
    if found.dtype.kind == "O" and all(isinstance(one, str) for one in found):
        found = found.astype(np.str_)
    if found.dtype.kind not in "Uiu":
        raise InputTypeError(f"{name} must be names or integers; got {found.dtype}")
    return found if found.dtype.kind == "U" else found.astype(np.int64)


def check_set(
    embeddings: ArrayLike, labels: ArrayLike, name: str, labels_name: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return embeddings (n, D) and labels (n,) as arrays, checked."""
    vectors, classes = _to_array(embeddings), _to_array(labels)
    if vectors.ndim != 2 or not len(vectors) or not vectors.shape[1]:
        raise InputError(f"{name} must have shape (n, D) with n and D above 0; got {vectors.shape}")
    if not np.issubdtype(vectors.dtype, np.floating):
        raise InputTypeError(f"{name} must be floating point; got {vectors.dtype}")
    if not np.isfinite(vectors).all():
        raise InputError(f"{name} must be finite; got NaN or infinity")
    if classes.shape != vectors.shape[:1]:
        raise InputError(
            f"{labels_name} must have shape ({len(vectors)},), one per embedding; got {classes.shape}"
        )
    if not np.issubdtype(classes.dtype, np.integer):
        raise InputTypeError(f"{labels_name} must be integers; got {classes.dtype}")
    return vectors, classes.astype(np.int64)


def _to_array(values: Any) -> NDArray[Any]:
    """Return an array of what may be a tensor: on a device, in half precision, or with a gradient."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if values.is_floating_point() and values.element_size() < 4:
            values = values.float()
    return np.asarray(values)
