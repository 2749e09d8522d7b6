"""Training raters of any kind: the order says which network it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Unpack

from refaug.core.files import read_json
from refaug.core.progress import Progress
from refaug.rater import stored_raters as stored
from refaug.rater.cross.build import CrossOrder, train_cross
from refaug.rater.dual.build import DualOrder, train_dual
from refaug.rater.frozen.build import LinearOrder, TowerOrder, train_linear, train_towers
from refaug.rater.network_folder import TrainingPlaces
from refaug.rater.nn.build import RaterOrder, train_rater
from refaug.rater.training.order import (
    TrainedVersion,
    TrainingKeywords,
    TrainingOrder,
    interrupted_order,
    interrupted_order_path,
)


class _Training(NamedTuple):
    """How a kind of network is ordered and trained."""

    order: type[TrainingOrder]
    train: Callable[..., TrainedVersion]


_TRAININGS: Final[Mapping[str, _Training]] = {
    stored.NN: _Training(RaterOrder, train_rater),
    stored.CROSS: _Training(CrossOrder, train_cross),
    stored.DUAL: _Training(DualOrder, train_dual),
    stored.LINEAR: _Training(LinearOrder, train_linear),
    stored.ENCODER: _Training(TowerOrder, train_towers),
}


def train_any_rater(
    places: TrainingPlaces,
    order: TrainingOrder,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Train the rater of an order of any kind."""
    (train,) = (training.train for training in _TRAININGS.values() if type(order) is training.order)
    return train(places, order, progress, **told)


def resume_any_rater(
    places: TrainingPlaces,
    name: str,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Continue the interrupted training of a rater of any kind, as it was ordered."""
    written: dict[str, object] = read_json(
        interrupted_order_path(places.cache, stored.KIND, name, "refaug train rater")
    )
    training = _TRAININGS.get(str(written.get("network", stored.NN)), _TRAININGS[stored.NN])
    order = interrupted_order(places, training.order, name)
    told["again"] = True
    return train_any_rater(places, order, progress, **told)
