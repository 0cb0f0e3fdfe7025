"""``bayestriplet export``."""

import typer

from bayestriplet.cli.arguments import Backbone, Run
from bayestriplet.cli.progress import progress_bar


def export(
    run: Run,
    backbone: Backbone = None,
) -> None:
    """Write the encoder of a run as encoder.onnx, which searches use; training does this at its end."""
    with progress_bar("exporting"):
        from bayestriplet.evaluation.encoders import load_encoder
        from bayestriplet.runs.folder import RunFolder
        from bayestriplet.training.finishing import export as export_encoder

        folder = RunFolder.open(run)
        encoder = load_encoder(folder.model, trusted=backbone)
        export_encoder(folder, encoder)
    info = encoder.info
    colour = "grey" if info.channels == 1 else "colour"
    taken = info.needs if info.inputs else f"{info.size} x {info.size} {colour} images"
    typer.echo(
        f"{folder.encoder}: {taken} to {info.dim} numbers, {folder.encoder.stat().st_size / 1e6:.1f} MB"
    )
