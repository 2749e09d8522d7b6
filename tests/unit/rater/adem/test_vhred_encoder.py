"""The encoder, the latent variable and the decoder of a VHRED against their equations in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import refusing
from vhreds import VOCABULARY, PlainVhred, plain_divergence, tiny_vhred_network

from refaug.core.errors import Usage
from refaug.rater.adem.vhred.encoder import GatedCell, batch_dialogues, pack
from refaug.rater.adem.vhred.gaussians import Gaussian, divergence
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig

END = VOCABULARY - 1
DIALOGUES = [
    [[5, 9, 4], [3, 3, 7, 6, 21, 8]],
    [[2]],
    [[12, 13], [2, 14], [25, 3, 8, 8, 11]],
    [[7, 8, 9, 10, 11, 12, 13]],
    [[4], [5], [6]],
]


def as_turns(dialogue: list[list[int]]) -> list[np.ndarray]:
    return [np.array(turn, np.int64) for turn in dialogue]


@pytest.mark.parametrize("cell", ["ln-gru", "gru", "random"])
def test_states_are_those_of_the_equations_turn_by_turn(cell: str) -> None:
    network = tiny_vhred_network(cell=cell)
    batch = batch_dialogues([as_turns(dialogue) for dialogue in DIALOGUES], END)
    with torch.inference_mode():
        states = network.read(batch)
    plain = PlainVhred(network)
    for row, dialogue in enumerate(DIALOGUES):
        expected = plain.read(dialogue)
        for end in range(len(dialogue) + 1):
            assert states.utterances[row, end].numpy() == pytest.approx(expected.utterances[end], abs=1e-5)
            assert states.contexts[row, end].numpy() == pytest.approx(expected.contexts[end], abs=1e-5)
    assert batch.end_counts.tolist() == [len(dialogue) + 1 for dialogue in DIALOGUES]


def test_the_reader_of_pieces_runs_on_through_turns() -> None:
    network = tiny_vhred_network()
    alone = batch_dialogues([as_turns([[3, 7, 6]])], END)
    after = batch_dialogues([as_turns([[5, 9, 4], [3, 7, 6]])], END)
    with torch.inference_mode():
        first, second = network.read(alone).utterances[0, 1], network.read(after).utterances[0, 2]
    assert not torch.allclose(first, second, atol=0.01)


def test_the_backward_reader_reverses_pieces_within_turns_only() -> None:
    batch = batch_dialogues([as_turns([[5, 9, 4], [3, 7]])], END)
    assert batch.pieces[batch.forwards.numbers].tolist() == [END, 5, 9, 4, END, 3, 7, END]
    assert batch.pieces[batch.backwards].tolist() == [END, 4, 9, 5, END, 7, 3, END]
    assert batch.ends.tolist() == [[0, 4, 7]]


def test_packed_sequences_hold_each_step_of_those_long_enough() -> None:
    packed = pack([np.array(numbers) for numbers in ([1, 2], [3, 4, 5], [6])])
    assert packed.numbers.tolist() == [3, 1, 6, 4, 2, 5]
    assert packed.counts == (3, 2, 1)
    assert packed.order.tolist() == [1, 0, 2]
    assert packed.rows.tolist() == [1, 0, 2]
    assert packed.row_of_number.tolist() == [0, 1, 2, 0, 1, 0]
    assert packed.starts.tolist() == [0, 3, 5, 6]


@pytest.mark.parametrize(("is_normalised", "has_overwrite"), [(True, False), (True, True), (False, False)])
def test_gradients_of_cells_are_those_of_differences(is_normalised: bool, has_overwrite: bool) -> None:
    torch.manual_seed(3)
    cell = GatedCell(3, 4, cells=2, is_normalised=is_normalised, has_overwrite=has_overwrite).double()
    weights = {name: torch.randn(weight.shape, dtype=torch.float64) for name, weight in cell.named_parameters()}
    names, inputs = list(weights), torch.randn(5, 3, dtype=torch.float64)

    def run(seen: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        cells = dict(zip(names, values, strict=True))
        return torch.func.functional_call(_GatesOf(cell), {f"cell.{name}": cells[name] for name in names}, (seen,))

    tensors = [tensor.requires_grad_() for tensor in (inputs, *weights.values())]
    assert torch.autograd.gradcheck(run, tensors, atol=1e-6)


class _GatesOf(torch.nn.Module):
    """Runs a cell over two sequences, of three and of two steps."""

    def __init__(self, cell: GatedCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        return self.cell.run(self.cell.gates_of(seen), (2, 2, 1), seen.new_zeros(2, 2, 4))


def test_the_latent_gaussians_are_those_of_the_equations() -> None:
    network = tiny_vhred_network()
    assert network.latent is not None
    rng = np.random.default_rng(4)
    contexts, turns = rng.normal(size=(3, 6)).astype(np.float32), rng.normal(size=(3, 8)).astype(np.float32)
    with torch.inference_mode():
        prior = network.latent.prior(torch.from_numpy(contexts))
        posterior = network.latent.posterior(torch.from_numpy(contexts), torch.from_numpy(turns), prior)
        distances = divergence(posterior, prior)
    plain = PlainVhred(network)
    for row in range(3):
        before, after = plain.prior(contexts[row]), plain.posterior(contexts[row], turns[row])
        assert prior.mean[row].numpy() == pytest.approx(before[0], abs=1e-5)
        assert prior.variance[row].numpy() == pytest.approx(before[1], abs=1e-5)
        assert posterior.mean[row].numpy() == pytest.approx(after[0], abs=1e-5)
        assert posterior.variance[row].numpy() == pytest.approx(after[1], abs=1e-5)
        assert float(distances[row]) == pytest.approx(plain_divergence(after, before), rel=1e-4, abs=1e-5)


def test_the_divergence_has_the_gradients_of_differences() -> None:
    torch.manual_seed(5)
    means = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    spreads = [torch.rand(2, 3, dtype=torch.float64).add_(0.2).requires_grad_() for _ in range(2)]
    assert torch.autograd.gradcheck(
        lambda one, two, three, four: divergence(Gaussian(one, two), Gaussian(three, four)),
        (means[0], spreads[0], means[1], spreads[1]),
    )
    same = Gaussian(means[0], spreads[0])
    assert divergence(same, same).tolist() == [0.0, 0.0]


def test_paper_sizes_are_the_published_ones() -> None:
    paper = PRESETS["paper"]
    config = VhredConfig(
        vocabulary=5_100,
        **{name: getattr(paper, name) for name in ("embedding", "utterance", "context", "latent", "decoder")},
    )
    assert (config.state_size("utterance"), config.condition) == (2_000, 3_100)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"embedding": 0}, "a vhred's embedding is 0"),
        ({"vocabulary": 70_000}, "70000"),
        ({"cell": "lstm"}, "lstm"),
    ],
)
def test_impossible_sizes_are_refused(setting: dict[str, object], message: str) -> None:
    with refusing(Usage, message):
        VhredConfig(**setting)  # type: ignore[arg-type]
