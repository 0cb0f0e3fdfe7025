"""The miners and losses that BUT and BUNCA are compared with, built on pytorch-metric-learning."""

from collections.abc import Callable

import torch
from pytorch_metric_learning import distances, losses, miners, reducers
from torch import Tensor, nn

from bayestriplet.checks import check_choice, check_flag, check_number, check_whole, nearest
from bayestriplet.errors import InputError
from bayestriplet.methods import METHODS
from bayestriplet.posterior.checks import check_items
from bayestriplet.triplets.signature import check_unused


class Baseline(nn.Module):
    """A miner of rows of the batch (or none) and a loss, called as ``criterion(embeddings, labels)``.

    Parameters of the loss (proxies of proxy-nca, the boundary of dws) are parameters of this
    module: give them to the optimiser along with the network's.
    """

    def __init__(self, num_classes: int, dim: int, loss: nn.Module, miner: nn.Module | None = None) -> None:
        super().__init__()
        self.num_classes, self.dim = num_classes, dim
        self.loss, self.miner = loss, miner
        self._latest: tuple[Tensor, tuple[Tensor, ...] | None] | None = None

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: None = None,
        ref_emb: None = None,
        ref_labels: None = None,
    ) -> Tensor:
        """Return the loss of embeddings (B, D) with labels (B,); the last three must be None, as in BUT."""
        reason = "a baseline brings its own miner"
        check_unused(reason, indices_tuple=indices_tuple, ref_emb=ref_emb, ref_labels=ref_labels)
        embeddings, labels = check_items(embeddings, labels, self.num_classes, self.dim)
        if not len(embeddings):
            raise InputError("embeddings must hold at least one item; got an empty batch")
        mined = None if self.miner is None else self.miner(embeddings, labels)
        self._latest = (labels, mined)
        if type(self.loss) is losses.NCALoss and torch.bincount(labels).max() < 2:
            return embeddings.sum() * 0  # no positive at all, of which PML makes NaN
        value: Tensor = self.loss(embeddings, labels, mined)
        return value

    def active_share(self) -> float | None:
        """Share of the latest batch's triplets with a loss above 0; None without triplets or a margin."""
        if self._latest is None or not isinstance(self.loss, losses.TripletMarginLoss):
            return None
        if self.loss.smooth_loss:
            return None
        labels, mined = self._latest
        size = torch.bincount(labels)[labels]  # (B,) items of the own class
        number = ((size - 1) * (len(labels) - size)).sum() if mined is None else len(mined[0])
        return float(self.loss.reducer.num_past_filter / max(1, int(number)))


def _euclidean(normalize: bool, power: int = 1) -> distances.LpDistance:
    return distances.LpDistance(normalize_embeddings=normalize, power=power)


def _triplet_margin(margin: float, distance: distances.LpDistance) -> losses.TripletMarginLoss:
    reducer = reducers.AvgNonZeroReducer(collect_stats=True)
    return losses.TripletMarginLoss(margin, smooth_loss=margin == 0, distance=distance, reducer=reducer)


def _batch_all(num_classes: int, dim: int, normalize: bool, margin: float) -> Baseline:
    return Baseline(num_classes, dim, _triplet_margin(margin, _euclidean(normalize)))


def _batch_semi_hard(num_classes: int, dim: int, normalize: bool, margin: float) -> Baseline:
    distance = _euclidean(normalize)
    miner = miners.TripletMarginMiner(margin, type_of_triplets="semihard", distance=distance)
    return Baseline(num_classes, dim, _triplet_margin(margin, distance), miner)


def _batch_hard(num_classes: int, dim: int, normalize: bool, margin: float) -> Baseline:
    """Farthest positive, nearest negative (Hermans et al. 2017); a margin of 0 is their soft one."""
    distance = _euclidean(normalize)
    miner = miners.BatchHardMiner(distance=distance)
    return Baseline(num_classes, dim, _triplet_margin(margin, distance), miner)


def _easy_positive(num_classes: int, dim: int, normalize: bool, temperature: float) -> Baseline:
    """Easiest positive, semi-hard negative, softmax over the pair (Xuan et al. 2020)."""
    distance = (
        distances.CosineSimilarity()
        if normalize
        else distances.DotProductSimilarity(normalize_embeddings=False)
    )
    miner = miners.BatchEasyHardMiner(
        pos_strategy=miners.BatchEasyHardMiner.EASY,
        neg_strategy=miners.BatchEasyHardMiner.SEMIHARD,
        distance=distance,
    )
    return Baseline(num_classes, dim, losses.NTXentLoss(temperature, distance=distance), miner)


def _distance_weighted(num_classes: int, dim: int, normalize: bool, margin: float) -> Baseline:
    """Negatives drawn by inverse density of their distance, margin loss (Wu et al. 2017).

    The density is that of the unit sphere, so mining happens there also when the loss does not.
    """
    miner = miners.DistanceWeightedMiner(distance=_euclidean(normalize=True))
    loss = losses.MarginLoss(
        margin, beta=1.2, learn_beta=True, num_classes=num_classes, distance=_euclidean(normalize)
    )
    return Baseline(num_classes, dim, loss, miner)


def _nca(num_classes: int, dim: int, normalize: bool, temperature: float) -> Baseline:
    distance = _euclidean(normalize, power=2)
    return Baseline(num_classes, dim, losses.NCALoss(softmax_scale=1 / temperature, distance=distance))


def _proxy_nca(num_classes: int, dim: int, normalize: bool, temperature: float) -> Baseline:
    distance = _euclidean(normalize, power=2)
    loss = losses.ProxyNCALoss(num_classes, dim, softmax_scale=1 / temperature, distance=distance)
    return Baseline(num_classes, dim, loss)


BASELINES: dict[str, Callable[..., Baseline]] = {
    "ba": _batch_all,
    "bsh": _batch_semi_hard,
    "bh": _batch_hard,
    "ep": _easy_positive,
    "dws": _distance_weighted,
    "nca": _nca,
    "proxy-nca": _proxy_nca,
}


def baseline(name: str, num_classes: int, dim: int, normalize: bool = True, **options: float) -> Baseline:
    """Return a baseline criterion by name.

    Args:
        name: ba (batch-all), bsh (batch semi-hard), bh (batch hard), ep (easy positive),
            dws (distance-weighted), nca or proxy-nca.
        num_classes: K, at least 2.
        dim: D, the length of an embedding.
        normalize: compare embeddings on the unit sphere.
        **options: ``margin`` of ba, bsh, bh, dws (0 is the soft margin of bh, log(1 + exp(d_p - d_n)));
            ``temperature`` of ep, nca, proxy-nca.

    >>> criterion = bt.baseline("bh", num_classes=2, dim=2)
    >>> criterion(embeddings, labels).shape
    torch.Size([])

    """
    check_choice("name", name, BASELINES)
    check_whole("num_classes", num_classes, 2)
    check_whole("dim", dim, 1)
    check_flag("normalize", normalize)
    method = METHODS[name]
    defaults = method.values("default")
    for option, value in options.items():
        if option not in defaults:
            raise InputError(
                f"{name} has no option {option!r}{nearest(option, defaults)}; it takes {', '.join(defaults)}"
            )
        check_number(option, value, **{"least" if method.soft_margin else "above": 0})
    return BASELINES[name](num_classes, dim, normalize, **{**defaults, **options})
