"""The work behind ``bayestriplet evaluate``."""

from pathlib import Path

from bayestriplet.data.dataset import LabelledImages
from bayestriplet.data.progress import Progress
from bayestriplet.data.sources import open_data
from bayestriplet.data.splits import SPLITS
from bayestriplet.evaluation.evaluate import evaluate, select_items
from bayestriplet.evaluation.report import Scores
from bayestriplet.evaluation.run_folder import RunFolder
from bayestriplet.model.encoder import load_encoder
from bayestriplet.training.loader import default_workers


def evaluate_run(
    path: Path, data: str | None, split: str, gallery: str | None, skip_bad: bool, progress: Progress
) -> tuple[dict[str, Scores], str]:
    """Return the scores of a run on some data, and a title for them."""
    run = RunFolder.open(path)
    config = run.read_config()
    encoder = load_encoder(run.model)

    def opened(name: str) -> LabelledImages:
        per_class = config.per_class if name == config.data else None
        size = encoder.info.size
        return open_data(
            name, seed=config.seed, per_class=per_class, size=size, skip_bad=skip_bad, progress=progress
        )

    images = opened(data or config.data)
    queries = select_items(images, split, encoder)
    among = None
    if gallery in SPLITS:
        among = select_items(images, gallery, encoder) if gallery != split else None
    elif gallery is not None:
        among = select_items(opened(gallery), split, encoder)
    rows = evaluate(
        encoder,
        queries,
        among,
        workers=default_workers(images),
        name=config.method,
        tell=progress,
    )
    against = "" if among is None else f" against {len(among.indices):,} of {gallery}"
    return rows, f"{len(queries.indices):,} {split} items of {images.name}{against}, in percent"
