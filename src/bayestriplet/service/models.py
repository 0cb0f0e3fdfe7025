"""What the service answers with, for its description."""

from pydantic import BaseModel, Field


class Neighbour(BaseModel):
    """An indexed item near the query."""

    rank: int
    id: str
    label: str
    distance: float
    path: str


class Vote(BaseModel):
    """The class that most neighbours are of."""

    label: str = Field(description="Where classes are tied, the one of them that is nearest.")
    share: float
    tied: list[str] = Field(description="The classes that are tied, nearest first; empty where one wins.")


class SearchAnswer(BaseModel):
    """What `bayestriplet search --json` prints, and what the page needs beside it."""

    query: str
    neighbours: list[Neighbour]
    vote: Vote | None
    probabilities: dict[str, float] | None
    novelty: float | None = Field(description="Percentage of held-out items that are less novel.")
    excluded_group: str | None = Field(description="The group whose items were left out.")
    unlike: bool = Field(description="Whether the query is unlike the known classes.")
    against: str = Field(description="Which classes novelty is about: trained on, or trained on or taught.")
    evidence: str = Field(description="What novelty rests on, where that is little.")
    place: tuple[float, float] | None = Field(description="Of the query in the map.")
    index: str = Field(description="Version of the index; it changes with every change.")
    replay: str = Field(description="Sent in place of the image, asks the same again.")
    thumbnail: str | None = Field(description="The query as the encoder sees it: PNG or JPEG in base64.")


class ItemAnswer(BaseModel):
    """An indexed item."""

    id: str
    label: str
    group: str
    source: str
    path: str
    index: str


class Map(BaseModel):
    """Places of items in the plane, a sample where there are many."""

    index: str
    way: str = Field(description="umap, or pca (principal axes) until that is made.")
    pending: bool = Field(description="Whether a better map is on its way.")
    total: int = Field(description="How many items the index holds.")
    ids: list[str]
    labels: list[str]
    x: list[float]
    y: list[float]


class Example(BaseModel):
    """An item to begin with."""

    id: str
    label: str


class Info(BaseModel):
    """What is served, and its limits."""

    run: str
    version: str = Field(description="Of bayestriplet.")
    index: str
    items: int
    search: str = Field(description="How it searches.")
    labels: dict[str, int]
    groups: list[str] = Field(description="Patients or slides, the first 1,000 by name.")
    group_count: int = Field(description="How many groups there are.")
    classes: list[str]
    size: int
    channels: int
    dim: int
    needs: str = Field(description="What the run takes: images, or vectors of which length.")
    pictures: bool = Field(description="Whether items have pictures; vectors have none.")
    examples: list[Example]
    most_neighbours: int
    most_bytes: int
    most_pixels: int


class KnownClass(BaseModel):
    """A class, with how many items it was trained on and taught."""

    name: str
    trained: int
    taught: int


class Classes(BaseModel):
    """All classes, and whether more can be taught here."""

    writable: bool
    classes: list[KnownClass]


class Message(BaseModel):
    """Why a request was not met, in words."""

    message: str


class Health(BaseModel):
    """That the server is there."""

    status: str


SEARCH_FORM = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "description": "One of image, item and replay.",
                "properties": {
                    "image": {
                        "type": "string",
                        "format": "binary",
                        "description": "PNG, JPEG, TIFF, BMP, WebP or JPEG 2000; at most 32 MB.",
                    },
                    "item": {"type": "string", "description": "Id of an indexed item."},
                    "replay": {"type": "string", "description": "What an earlier answer gave."},
                    "k": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 10},
                    "label": {"type": "string", "description": "Only items with this label."},
                    "group": {"type": "string", "description": "Only items of this group."},
                    "source": {"type": "string", "description": "Only items of this set."},
                    "exclude_self": {
                        "type": "boolean",
                        "default": False,
                        "description": "Leave out items whose pixels are those of the query.",
                    },
                    "exclude_group": {
                        "type": "string",
                        "description": "Leave out items of this group; empty for none. "
                        "If not given, the item's own, unless group is given.",
                    },
                },
            }
        }
    },
}

TEACH_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["label", "replays"],
                "properties": {
                    "label": {"type": "string", "description": "The class, new or known."},
                    "replays": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "What earlier answers gave: the pictures to teach.",
                    },
                    "undo": {"type": "boolean", "default": False, "description": "Take them out again."},
                },
            }
        }
    },
}
