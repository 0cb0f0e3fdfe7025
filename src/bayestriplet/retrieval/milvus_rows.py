"""Items, hits and conditions as Milvus writes them."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import FIELDS, Hit, Item, Rows, Stored


def is_one_of(ids: Sequence[str]) -> str:
    """Return the condition that an id is one of these; Milvus' own way to name ids does not quote quotes."""
    return f"id in {json.dumps(list(ids), ensure_ascii=False)}"


def to_expression(condition: Condition) -> str:
    """Return a condition as Milvus reads it."""
    value = json.dumps(condition.value, ensure_ascii=False)
    return f"{condition.field} {'!=' if condition.is_excluded else '=='} {value}"


def to_entries(rows: Rows) -> list[dict[str, Any]]:
    """Return rows as Milvus takes them: it has no bytes, so thumbnails are text."""
    return [
        {field: getattr(item, field) for field in FIELDS}
        | {"vector": vector, "thumbnail": base64.b64encode(thumbnail).decode()}
        for item, vector, thumbnail in zip(rows.items, rows.vectors, rows.thumbnails, strict=True)
    ]


def to_item(row: Mapping[str, Any]) -> Item:
    """Return the item of a row."""
    return Item(*(str(row[field]) for field in FIELDS))


def to_stored(row: Mapping[str, Any]) -> Stored:
    """Return the item of a row with its vector."""
    return Stored(to_item(row), np.asarray(row["vector"], np.float32))


def to_hit(found: Mapping[str, Any]) -> Hit:
    """Return a hit; Milvus gives the square of a Euclidean distance, which rounding may put below 0."""
    return Hit(to_item(found["entity"]), max(0.0, float(found["distance"])) ** 0.5)
