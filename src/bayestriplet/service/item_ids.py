"""Ids of items in addresses."""

from starlette.convertors import Convertor


class ItemConvertor(Convertor[str]):
    """The id of an item in an address: any characters, also the end of a line."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """Return the id."""
        return value

    def to_string(self, value: str) -> str:
        """Return what stands for an id."""
        return value
