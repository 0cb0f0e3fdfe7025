"""The Lightning module: encoder, criterion, optimiser and schedule."""

import math
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from bayestriplet.config import TrainConfig
from bayestriplet.errors import BayesTripletError, DivergenceError, InputError
from bayestriplet.model.encoder import Encoder, HeadEncoder
from bayestriplet.posterior.distributed import RefusedElsewhereError
from bayestriplet.training.gradients import average_in_order
from bayestriplet.training.rank_state import gather_states, rank_state, restore_rank
from bayestriplet.triplets.build import build_criterion
from bayestriplet.triplets.criteria import BUNCA, BUT

CHECKPOINT_FORMAT = 1
BACKBONE_RATE = 0.1  # of the head's rate, for a backbone that knows something already


class EmbeddingModule(LightningModule):
    """Trains an encoder with a criterion of so many classes for a fixed number of steps."""

    def __init__(
        self, encoder: Encoder | HeadEncoder, config: TrainConfig, steps: int, num_classes: int
    ) -> None:
        super().__init__()
        self.encoder, self.config, self.steps = encoder, config, steps
        self.draws = torch.Generator().manual_seed(config.seed)
        self.criterion = build_criterion(
            config.method,
            num_classes,
            config.dim,
            recipe=config.recipe,
            generator=self.draws,
            normalize=bool(config.normalize),
            margin=config.margin,
            temperature=config.temperature,
            draw_classes=config.draw_classes,
        )
        self.train_loss = float("nan")

    def setup(self, stage: str) -> None:
        """Draw where the network is trained."""
        del stage
        device = self.trainer.strategy.root_device
        if device.type != self.draws.device.type:
            self.draws = torch.Generator(device).manual_seed(self.config.seed)
            if isinstance(self.criterion, BUT | BUNCA):
                self.criterion.generator = self.draws

    def on_train_start(self) -> None:
        """Make the gradients of several ranks the same whenever a training was resumed."""
        average_in_order(self.trainer.strategy.model)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        images, labels = batch
        try:
            loss: Tensor = self.criterion(self.encoder.features(images), labels)
        except RefusedElsewhereError:
            raise
        except BayesTripletError as error:
            raise DivergenceError(
                f"training failed at step {self.global_step}: {error}; try a lower --lr"
            ) from None
        self.train_loss = float(loss.detach())  # the step waits for the device here, once
        if not math.isfinite(self.train_loss):
            raise DivergenceError(
                f"the loss is {self.train_loss} at step {self.global_step}: try a lower --lr"
            )
        return loss

    def active_share(self) -> float | None:
        """Share of the latest batch's triplets that were active, where the method has such."""
        return self.criterion.active_share()  # type: ignore[operator]

    def configure_optimizers(self) -> Any:
        rate = self.config.lr or 0.0
        groups: list[dict[str, Any]] = [{"params": list(self.encoder.parameters())}]
        if self.config.unfreeze_from is not None and isinstance(self.encoder, Encoder):
            backbone = {"params": list(self.encoder.backbone.parameters()), "lr": rate * BACKBONE_RATE}
            groups = [{"params": list(self.encoder.head.parameters())}, backbone]
        if learned := list(self.criterion.parameters()):  # proxies, boundaries
            groups.append({"params": learned, "lr": rate * (self.config.loss_rate or 1.0)})
        optimizer = torch.optim.Adam(groups, rate, fused=True)
        if self.config.recipe == "paper":
            return {"optimizer": optimizer}
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["bayestriplet_format"] = CHECKPOINT_FORMAT
        own = rank_state(self.encoder, self.draws)
        checkpoint["generators"] = own["generators"]
        checkpoint["ranks"] = gather_states(own)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for name, value in self.criterion.state_dict().items():
            found = checkpoint["state_dict"].get(f"criterion.{name}", value)
            if ".root." not in name and found.shape != value.shape:  # roots of other versions are made anew
                raise InputError(
                    "the checkpoint was written by a version that also counted classes without training "
                    "items: train again with another --out"
                )
        restore_rank(checkpoint, self.draws)
