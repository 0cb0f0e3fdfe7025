"""One version of a store, from memory: what is searched while the next version is made ready."""

from collections.abc import Iterable, Sequence

from bayestriplet.data.progress import Progress
from bayestriplet.retrieval.conditions import Condition
from bayestriplet.retrieval.items import Hit, Item, Rows, Stored, Vectors
from bayestriplet.retrieval.memory import Memory
from bayestriplet.retrieval.sets import IndexedSet, SetChange
from bayestriplet.retrieval.store import Store


class PinnedStore:
    """Searches one version, whatever becomes of the table; what is written goes to the table."""

    def __init__(self, store: Store, memory: Memory) -> None:
        self.uri, self.store, self.memory = store.uri, store, memory

    def pinned(self, apart: bool = False) -> "PinnedStore":
        del apart
        return self

    def fingerprint(self) -> str | None:
        return self.memory.fingerprint

    def count(self) -> int:
        return len(self.memory)

    def items(self) -> list[Item]:
        return self.memory.items()

    def version(self) -> str | None:
        return self.memory.key

    def find(self, ids: Iterable[str]) -> dict[str, Stored]:
        return {one.item.id: one for one in self.memory.find(ids)}

    def sample(self, number: int) -> list[Stored]:
        return self.memory.sample(number)

    def labels(self) -> dict[str, int]:
        return self.memory.columns["label"].count()

    def groups(self) -> dict[str, int]:
        return self.memory.columns["group"].count()

    def prepare(self, progress: Progress | None = None) -> str:
        del progress
        self.memory.find(())
        return self.memory.describe()

    def search(self, vectors: Vectors, k: int, where: Sequence[Condition]) -> list[list[Hit]]:
        return self.memory.search(vectors, k, where)

    def thumbnails(self, ids: Iterable[str]) -> dict[str, bytes]:
        return self.store.thumbnails(ids)

    def sets(self) -> dict[str, IndexedSet]:
        return self.store.sets()

    def write(
        self, fingerprint: str, dim: int, rows: Iterable[Rows], gone: Sequence[str],
        sets: Sequence[SetChange] = (),
    ) -> None:  # fmt: skip
        self.store.write(fingerprint, dim, rows, gone, sets)

    def purge(self) -> None:
        self.store.purge()

    @property
    def after_purge(self) -> str:
        """What a purge has done, as a sentence."""
        return self.store.after_purge
