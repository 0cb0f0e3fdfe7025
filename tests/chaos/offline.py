"""What the service must have answered, computed without it: for every version of the index and lesson."""

from bisect import bisect_left

import numpy as np

K = 10
NEAR = 1e-5  # that numbers of an answer may differ by: pictures are encoded together or alone
TAUGHT = "taught"


class Offline:
    """Neighbours by distances of all items, and probabilities by a copy of the run that has the same lessons.

    ``versions`` says how many of the items that were added are in a version of the index.
    """

    def __init__(self, run, before, queries, items, versions):
        from bayestriplet.data.images import decode_bytes
        from bayestriplet.retrieval.index import Index
        from bayestriplet.retrieval.live import look_at
        from bayestriplet.retrieval.teaching import Teacher

        index = Index.open(run)
        self.teacher, self.versions = Teacher.open(before), versions
        stored = index.store.sample(10**6)
        self.ids = [one.item.id for one in stored]
        self.vectors = np.array([one.vector for one in stored], np.float64)
        self.added = np.array([_number(name) for name in self.ids])
        encoder = index.encoder
        pixels = np.stack([decode_bytes(one.read_bytes(), encoder.size, encoder.channels) for one in queries])
        own = {"query": encoder.encode(pixels)}
        own["item"] = np.array([self.vectors[self.ids.index(name)] for name in items], np.float32)
        self.own, self.looks = own, look_at(index.predictive, pixels)
        self.said, self.near = {}, {}

    def compare(self, answers):
        """How many answers to searches differ from what they had to be, and how many were of a taught run."""
        lessons = sorted((one for one in answers if one["what"] == "lesson"), key=lambda one: one["began"])
        ends = [one["ended"] for one in lessons]
        states = [None, *(one["taught"] for one in lessons)]
        begins = [-np.inf, *(one["began"] for one in lessons)]
        wrong, after_lessons, first = 0, 0, []
        for one in answers:
            if "answer" not in one:
                continue
            low = bisect_left(ends, one["began"])  # the lesson before this has ended, and its state with it
            high = bisect_left(begins, one["ended"])
            fit = [state for state in dict.fromkeys(states[low:high]) if self.says(one, state)]
            after_lessons += bool(fit) and None not in fit
            if not fit or not self.finds(one):
                wrong, first = wrong + 1, [*first, one][:3]
        return {"wrong_answers": wrong, "first_wrong": first, "answers_of_taught_run": after_lessons}

    def finds(self, one):
        """Whether an answer has the nearest items of its version."""
        kind = "item" if "item" in one else "query"
        key = kind, one[kind], one["answer"]["index"]
        if key not in self.near:
            there = np.flatnonzero(self.added < self.versions[key[2]])
            apart = np.linalg.norm(self.vectors[there] - self.own[kind][one[kind]].astype(np.float64), axis=1)
            order = np.argsort(apart, kind="stable")[:K]
            self.near[key] = [(self.ids[there[i]], apart[i]) for i in order]
        found = [(near["id"], near["distance"]) for near in one["answer"]["neighbours"]]
        return len(found) == K and all(
            name == expected and abs(distance - other) < NEAR
            for (name, distance), (expected, other) in zip(found, self.near[key], strict=True)
        )

    def says(self, one, taught):
        """Whether an answer has the probabilities and the novelty of a run with this lesson, or none."""
        what = "query" if one["what"] in ("upload", "own") else one["what"]
        if taught not in self.said:
            self.said[taught] = self._describe(taught)
        kind = "item" if "item" in one else "query"
        shares, novelty = self.said[taught][what][one[kind]]
        found = one["answer"]["probabilities"]
        return (
            found.keys() == shares.keys()
            and all(abs(found[name] - shares[name]) < NEAR for name in shares)
            and abs(one["answer"]["novelty"] - novelty) < NEAR
        )

    def _describe(self, taught):
        """Return what is said of every query with this lesson, or without any."""
        from bayestriplet.retrieval.live import describe_vectors
        from bayestriplet.runs.predictive import open_predictive

        # A replay holds numbers of 32 bits.
        sent = None if self.looks is None else self.looks.astype(np.float32).astype(np.float64)
        self.teacher.run.taught.unlink(missing_ok=True)
        if taught is not None:
            row = slice(taught, taught + 1)
            self.teacher.teach(self.own["query"][row], [TAUGHT], looks=None if sent is None else sent[row])
        predictive = open_predictive(self.teacher.run, self.teacher.encoder.fingerprint)
        given = {"query": self.looks, "replay": sent, "item": None}
        return {
            what: describe_vectors(predictive, self.own["item" if what == "item" else "query"], looks)
            for what, looks in given.items()
        }


def _number(name):
    """The number of an item that was added, from 0; -1 for one that was there."""
    last = name.rpartition("/grown-")[2]
    return int(last.partition(".")[0]) if "/grown-" in name else -1
