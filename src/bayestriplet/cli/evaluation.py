"""The work behind ``bayestriplet evaluate`` and what ``figures`` shares with it."""

from pathlib import Path

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.sources import absolute_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.evaluation.evaluate import evaluate, select_items
from bayestriplet.evaluation.report import Scores
from bayestriplet.evaluation.run_data import open_run_data
from bayestriplet.evaluation.run_folder import RunFolder
from bayestriplet.model.encoder import load_encoder
from bayestriplet.training.loader import default_workers


def evaluate_run(
    path: Path, data: str | None, split: str, gallery: str | None, skip_bad: bool, backbone: str | None,
    progress: Progress,
) -> tuple[dict[str, Scores], str]:  # fmt: skip
    """Return the scores of a run on some data, and a title for them."""
    run = RunFolder.open(path)
    config = run.read_config()
    encoder = load_encoder(run.model, trusted=backbone)

    def opened(name: str) -> LabelledImages:
        return open_run_data(run, name, encoder.info.size, skip_bad, progress)

    name = absolute_data(data or config.data)
    images = opened(name)
    queries = select_items(images, split, encoder)
    among = None
    if gallery in SPLITS:
        among = select_items(images, gallery, encoder) if gallery != split else None
    elif gallery is not None and absolute_data(gallery) != name:  # the same items would find themselves
        among = select_items(opened(absolute_data(gallery)), split, encoder)
    rows = evaluate(
        encoder,
        queries,
        among,
        workers=default_workers(images),
        seed=config.seed,
        name=config.method,
        tell=progress,
    )
    against = "" if among is None else f" against {len(among.indices):,} of {gallery}"
    return rows, f"{len(queries.indices):,} {split} items of {images.name}{against}, in percent"
