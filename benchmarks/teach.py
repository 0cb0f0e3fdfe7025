"""New classes from a few examples, without training: five encoders of each of three data sets.

mnist: trained without the digits 6, 7 and 8, which are then taught; nothing of the run was fitted to them.
omniglot, cub: characters and bird species. Of the trained classes 70% of the items train, 15% validate and
15% test; held-out classes validate, so that the prior of new classes is fitted on them; others are taught.

Every class of all is a choice for every item. Old and new items weigh alike in the log loss. The temperature
of the rivals is fitted to the very items that they are scored on, which favours them. The figures land in
benchmarks/results/teach.json and from there in docs/results.md.
"""

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tables import fill_documents

import bayestriplet as bt
from bayestriplet.atomic import write_text
from bayestriplet.evaluation.calibration import auroc, log_softmax, reliability
from bayestriplet.evaluation.embeddings import embed
from bayestriplet.evaluation.evaluate import select_items
from bayestriplet.evaluation.evaluator import Evaluator
from bayestriplet.evaluation.probabilities import nearest_distances
from bayestriplet.retrieval.encoder import OnnxEncoder
from bayestriplet.retrieval.live import LivePredictive
from bayestriplet.retrieval.teaching import Teacher
from bayestriplet.runs.left_out import adapt
from bayestriplet.runs.predictive import Predictive, open_predictive
from bayestriplet.runs.taught import Taught
from bayestriplet.runs.teaching import open_teaching

RESULTS = Path(__file__).parent / "results" / "teach.json"
SEEDS = range(20, 25)  # those of the encoders that constants were chosen on are others
EPISODES = 3  # draws of examples per encoder
WAYS, OLD_ITEMS, NEW_ITEMS = 20, 1000, 50
SHOTS = {"mnist": (1, 5, 20, 100), "omniglot": (1, 5, 10), "cub": (1, 5, 20)}
OPTIONS: dict[str, dict[str, Any]] = {
    "mnist": {"width": 0.25, "max_steps": 3000, "without": "6,7,8", "method": "bunca"},  # as `make demo`
    "omniglot": {"width": 0.25, "max_steps": 400, "batch_size": 64, "method": "bunca"},
    "cub": {"dim": 128, "max_steps": 400, "batch_size": 64, "method": "bunca"},
}
TEMPERATURES = np.geomspace(1e-3, 3, 25)
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Embeddings of an encoder: training and test items of trained classes, and items of the new ones."""

    train: Floats
    train_labels: NDArray[np.int64]
    test: Floats
    test_labels: NDArray[np.int64]
    pool: Floats  # that examples are drawn from
    pool_labels: NDArray[np.int64]
    asked: Floats | None  # items of new classes to ask about; None: the rest of the pool
    asked_labels: NDArray[np.int64] | None
    looks: dict[str, Floats] = field(default_factory=dict)  # of "test" items, and of "new" ones to ask about


def split_omniglot(path: Path, out: Path) -> Path:
    """Write Omniglot with items of the trained characters in all splits, and return the file."""
    if not out.is_file():
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        part = np.random.default_rng(0).random(len(arrays["train_labels"]))
        sides = {"train": part < 0.7, "val": (part >= 0.7) & (part < 0.85), "test": part >= 0.85}
        for kind in ("images", "labels"):
            of_train = arrays[f"train_{kind}"]
            arrays[f"train_{kind}"] = of_train[sides["train"]]
            for name in ("val", "test"):
                arrays[f"{name}_{kind}"] = np.concatenate([of_train[sides[name]], arrays[f"{name}_{kind}"]])
        np.savez(out, **arrays)
    return out


def split_birds(path: Path, out: Path) -> Path:
    """Write the birds with items of the trained species in all splits, and return the file."""
    if not out.is_file():
        with np.load(path) as found:
            vectors, labels, names = found["vectors"], found["labels"].reshape(-1), found["classes"]
        part = np.random.default_rng(0).random(len(labels))
        own = np.where(part < 0.7, "train", np.where(part < 0.85, "val", "test"))
        splits = np.where(labels >= 100, "test", np.where(labels % 5 == 4, "val", own))
        np.savez(out, vectors=vectors, labels=labels, splits=splits, classes=names)
    return out


def read_vectors(run: Path, base: Predictive) -> Vectors:
    """Embed the splits of a run, and measure how test images look."""
    measured = Evaluator(run)
    images, novel = measured.open(measured.config.data)
    parts = {}
    for split in ("train", "test"):
        items = select_items(images, split, measured.encoder)
        parts[split] = measured.vectors(items).astype(np.float64), items.labels
    (train, labels), (test, test_labels) = parts["train"], parts["test"]
    old = np.isin(test_labels, labels)
    rows = images.indices("test")
    if novel is None:
        looks = {} if base.appearance is None else {
            "test": base.appearance.describe(images.read(rows[old])),
            "new": base.appearance.describe(images.read(rows[~old])),
        }  # fmt: skip
        parted = test[old], test_labels[old], test[~old], test_labels[~old]
        return Vectors(train, labels, *parted, None, None, looks)
    looks = {} if base.appearance is None else {
        "test": base.appearance.describe(images.read(rows)),
        "new": base.appearance.describe(novel.read(novel.indices("test"))),
    }  # fmt: skip
    strange = [(embed(measured.encoder, novel, rows).astype(np.float64), novel.labels[rows] + 1000)
               for rows in (novel.indices("train"), novel.indices("test"))]  # fmt: skip
    return Vectors(train, labels, test, test_labels, *strange[0], *strange[1], looks)


def draw(vectors: Vectors, shots: int, seed: int) -> tuple[list[Floats], Floats, NDArray[np.int64]]:
    """Return the examples of some new classes, and items of them to ask about with their positions."""
    rng = np.random.default_rng([seed, shots])
    examples, asked, labels = [], [], []
    for place, name in enumerate(rng.permutation(np.unique(vectors.pool_labels))[:WAYS]):
        rows = rng.permutation(np.flatnonzero(vectors.pool_labels == name))
        examples.append(vectors.pool[rows[:shots]])
        rest = vectors.pool[rows[shots:]]
        if vectors.asked is not None and vectors.asked_labels is not None:
            rest = rng.permutation(vectors.asked[vectors.asked_labels == name])[: 8 * NEW_ITEMS]
        asked.append(rest[: 8 * NEW_ITEMS] if vectors.asked is not None else rest[:NEW_ITEMS])
        labels += [place] * len(asked[-1])
    return examples, np.concatenate(asked), np.array(labels)


def figures(scores: Floats, labels: NDArray[np.int64], number: int, old: int) -> dict[str, float]:
    """Return the measures of scores (n, K), the first ``number`` items and ``old`` classes being old."""
    log_shares = log_softmax(scores)
    right = log_shares.argmax(1) == labels
    losses = -log_shares[np.arange(len(labels)), labels]
    of_old, of_new = right[:number].mean(), right[number:].mean()
    rng, least = np.random.default_rng(0), min(number, len(labels) - number)
    mixed = np.concatenate(
        [rng.permutation(number)[:least], number + rng.permutation(len(labels) - number)[:least]]
    )
    mixed = mixed[log_shares[mixed].argmax(1) >= old]
    error = reliability(np.exp(log_shares[mixed]), labels[mixed]).error if len(mixed) else float("nan")
    harmonic = 2 * of_old * of_new / max(of_old + of_new, 1e-12)
    loss = (losses[:number].mean() + losses[number:].mean()) / 2
    return {
        "new": 100 * of_new,
        "old": 100 * of_old,
        "harmonic": 100 * harmonic,
        "log_loss": loss,
        "ece": error,
    }


def tempered(distances: Floats, labels: NDArray[np.int64], number: int, old: int) -> dict[str, float]:
    """Return the measures of -distances / T with the T of least log loss on these very items."""
    found = [figures(-distances / t, labels, number, old) for t in TEMPERATURES]
    return min(found, key=lambda one: one["log_loss"])


def squared(x: Floats, y: Floats) -> Floats:
    return np.square(x).sum(1)[:, None] - 2 * x @ y.T + np.square(y).sum(1)


def ours(run: bt.Run, base: Predictive, examples: list[Floats], x: Floats) -> Floats:
    """Return the log joint of old classes, then new ones, after teaching the examples."""
    names = [f"new {k}" for k, part in enumerate(examples) for _ in part]
    taught = Taught.nothing(base.encoder, base.dim).plus(np.concatenate(examples), names)
    teaching = open_teaching(run.folder, base.encoder, base.reading)
    predictive = base.taught(run.folder, teaching, adapt(base, run.folder, teaching, taught))
    joint = predictive.log_probabilities(x)
    trained = np.flatnonzero(np.isfinite(base.log_prior))
    return joint[:, [*trained, *range(len(base.classes), len(predictive.classes))]]


def measure_shots(run: bt.Run, base: Predictive, vectors: Vectors, shots: int) -> dict[str, dict[str, float]]:
    """Return the measures of every way, the mean of some draws of examples."""
    names = np.unique(vectors.train_labels)
    means = np.stack([vectors.train[vectors.train_labels == k].mean(0) for k in names])
    rows = np.random.default_rng(1).permutation(len(vectors.test))[:OLD_ITEMS]
    test, of_test = vectors.test[rows], np.searchsorted(names, vectors.test_labels[rows])
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(EPISODES):
        examples, asked, places = draw(vectors, shots, seed)
        x, labels = np.concatenate([test, asked]), np.concatenate([of_test, len(names) + places])
        to_means = squared(x, np.concatenate([means, [part.mean(0) for part in examples]]))
        to_items = np.stack(
            [squared(x, vectors.train[vectors.train_labels == k]).min(1) for k in names]
            + [squared(x, part).min(1) for part in examples], 1,
        )  # fmt: skip
        sizes = len(test), len(names)
        found.setdefault("nearest mean", []).append(tempered(to_means, labels, *sizes))
        found.setdefault("nearest item", []).append(tempered(to_items, labels, *sizes))
        scores = ours(run, base, examples, x)
        found.setdefault("posterior", []).append(figures(scores, labels, *sizes))
    return {way: {name: float(np.mean([one[name] for one in many])) for name in many[0]}
            for way, many in found.items()}  # fmt: skip


def pictures(size: int, channels: int, foreign: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    """Return pictures that show nothing a run was trained on."""
    rng, ramp = np.random.default_rng(0), np.linspace(0, 255, size)
    shape = (size, size, channels)
    slopes = [np.tile(ramp, (size, 1)), np.tile(ramp[:, None], (1, size)), (ramp + ramp[:, None]) / 2]
    return {
        "noise": rng.integers(0, 256, (20, *shape)).astype(np.uint8),
        "black": np.zeros((1, *shape), np.uint8),
        "white": np.full((1, *shape), 255, np.uint8),
        "gradient": np.stack([np.repeat(one[..., None], channels, 2) for one in slopes]).astype(np.uint8),
        "foreign": foreign,
    }


def measure_novelty(run: bt.Run, base: Predictive, vectors: Vectors, foreign: Any) -> dict[str, Any]:
    """Return how well novelty distinguishes new classes, and which odd pictures it flags."""
    new = vectors.pool if vectors.asked is None else vectors.asked
    rng = np.random.default_rng(0)
    rows = [rng.permutation(len(one))[:2000] for one in (new, vectors.test)]
    looks = [vectors.looks[name][own] if vectors.looks else None
             for name, own in zip(("new", "test"), rows, strict=True)]  # fmt: skip
    new, old = (one[own] for one, own in zip((new, vectors.test), rows, strict=True))
    plain = replace(base, background=None)
    gallery = vectors.train.astype(np.float32)
    near = [nearest_distances(one.astype(np.float32), gallery) for one in (new, old)]
    out: dict[str, Any] = {
        "auroc": {
            "posterior": auroc(base.novelty_scores(new, looks[0]), base.novelty_scores(old, looks[1])),
            "vector alone": auroc(base.novelty_scores(new), base.novelty_scores(old)),
            "plain score": auroc(plain.novelty_scores(new), plain.novelty_scores(old)),
            "nearest item": auroc(*near),
        }
    }
    out["ordinary above 99"] = float((base.novelty(old, looks[1]) > 99).mean())
    if foreign is not None:
        encoder = OnnxEncoder.open(run.path)
        made = pictures(encoder.size, encoder.channels, foreign)
        for name, looked in (("flagged", True), ("flagged by the vector alone", False)):
            novelty = {kind: base.novelty(encoder.encode(images), base.look(images) if looked else None)
                       for kind, images in made.items()}  # fmt: skip
            out[name] = {kind: float((values > 99).mean()) for kind, values in novelty.items()}
    return out


def measure_speed(run: bt.Run, vectors: Vectors) -> dict[str, float]:
    """Return the seconds that 10,000 vectors take, and the milliseconds of an answer before and after."""
    encoder = OnnxEncoder.open(run.path)
    teacher, live = Teacher(run.folder, encoder), LivePredictive(run.folder, encoder.fingerprint)
    query = vectors.test[:1]
    look = vectors.looks["test"][:1] if vectors.looks else None

    def answer() -> float:
        took = []
        for _ in range(200):
            began = time.perf_counter()
            live.get().predict(query, look)  # type: ignore[union-attr]
            took.append(time.perf_counter() - began)
        return 1000 * float(np.median(took))

    try:
        before = answer()
        many = np.resize(vectors.pool, (10_000, vectors.pool.shape[1])).astype(np.float32)
        looks = None
        if vectors.looks:
            looks = np.resize(vectors.looks["new"], (10_000, vectors.looks["new"].shape[1]))
        began = time.perf_counter()
        teacher.teach(many, [f"new {i % 20}" for i in range(len(many))], looks=looks)
        seconds = time.perf_counter() - began
        return {"teach_10000_s": seconds, "answer_before_ms": before, "answer_after_ms": answer()}
    finally:
        run.folder.taught.unlink(missing_ok=True)


def measure_encoder(name: str, run: bt.Run, foreign: Any) -> dict[str, Any]:
    """Return all figures of an encoder."""
    base = open_predictive(run.folder, run.encoder.fingerprint, taught=False)
    if base is None:
        raise SystemExit(f"{run.path} keeps no predictive")
    vectors = read_vectors(run.path, base)
    scores = run.results["test"]
    recalls = {row: values["recall@1"]["value"] for row, values in scores.items()}
    return {
        "recall@1": recalls,
        "shots": {str(shots): measure_shots(run, base, vectors, shots) for shots in SHOTS[name]},
        "novelty": measure_novelty(run, base, vectors, foreign),
        "speed": measure_speed(run, vectors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--omniglot", type=Path, help="omniglot28.npz")
    parser.add_argument("--cub", type=Path, help="features of CUB-200-2011")
    parser.add_argument("--runs", type=Path, default=Path("runs/teach"))
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many encoders")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    data = {"mnist": "mnist"}
    if arguments.omniglot:
        data["omniglot"] = str(split_omniglot(arguments.omniglot, arguments.runs / "omniglot.npz").absolute())
    if arguments.cub:
        data["cub"] = f"vectors:{split_birds(arguments.cub, arguments.runs / 'cub.npz').absolute()}"
    results: dict[str, Any] = {
        "options": OPTIONS, "episodes": EPISODES, "seeds": list(SEEDS[: arguments.seeds]), "sets": {}
    }  # fmt: skip
    foreign: dict[str, Any] = {"cub": None}
    if arguments.omniglot:
        with np.load(arguments.omniglot) as found:
            foreign["mnist"] = found["test_images"][::500][:20, ..., None]
    from bayestriplet.data.sources import open_data

    digits = open_data("mnist")
    foreign["omniglot"] = digits.read(np.arange(20))
    for seed in SEEDS[: arguments.seeds]:
        for name, source in data.items():
            folder = arguments.runs / f"{name}-{seed}"
            done = (folder / "results.json").is_file()
            run = bt.Run(folder) if done else bt.train(source, out=folder, seed=seed, **OPTIONS[name])
            results["sets"].setdefault(name, []).append(measure_encoder(name, run, foreign.get(name)))
            print(name, seed, json.dumps(results["sets"][name][-1]["shots"])[:400], flush=True)
            write_text(arguments.out, json.dumps(results, indent=1) + "\n")
    if arguments.out == RESULTS:
        fill_documents()


if __name__ == "__main__":
    main()
