"""The gated recurrent cells of a VHRED: with layer normalisation or without, with an overwrite gate or without.

With LN(v) = (v − mean) / √(variance + 1e-7) over the units of one gate, gains γ, and σ the logistic function:

    r = σ(γ₁LN(xW_r) + γ₂LN(hU_r) + b_r)        z = σ(γ₃LN(xW_z) + γ₄LN(hU_z) + b_z)
    h̃ = tanh(γ₅LN(xW) + γ₆LN((r⊙h)U) + b)      h ← (1 − z)⊙h + z⊙h̃

The overwrite gate o has the form of r, and lets the input through as it is: h̃ becomes (1 − o)⊙h̃ + o⊙(xW_v + b_v).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

EPSILON: Final = 1e-7  # beneath the root of the variance, as in the released code


def normalise_blocks(states: Tensor, gains: Tensor, units: int) -> Tensor:
    """Return blocks of `units` numbers, each normalised, times gains of the same size as the last dimension."""
    blocks = states.reshape(*states.shape[:-1], -1, units)
    return nn.functional.layer_norm(blocks, (units,), eps=EPSILON).flatten(-2) * gains


class GatedCell(nn.Module):
    """Weights of one cell, or of several that step together, such as the two directions of a reader.

    A cell first turns its inputs into gates, all at once, since they do not depend on the states; then it steps.
    Blocks of the gates: r, z, with an overwrite gate o, then the candidate h̃, and with an overwrite gate xW_v.
    """

    def __init__(
        self, inputs: int, units: int, *, cells: int = 1, is_normalised: bool = True, has_overwrite: bool = False
    ) -> None:
        super().__init__()
        self.units, self.cells = units, cells
        self.is_normalised, self.has_overwrite = is_normalised, has_overwrite
        self.gate_count = 3 if has_overwrite else 2  # gates that see the state as it is
        blocks = self.gate_count + 1  # and the candidate
        self.input_weight = nn.Parameter(torch.empty(cells, inputs, blocks * units))
        self.gate_weight = nn.Parameter(torch.empty(cells, units, self.gate_count * units))
        self.candidate_weight = nn.Parameter(torch.empty(cells, units, units))
        self.bias = nn.Parameter(torch.empty(cells, 1, blocks * units))
        if is_normalised:
            self.input_gain = nn.Parameter(torch.empty(cells, 1, blocks * units))
            self.gate_gain = nn.Parameter(torch.empty(cells, 1, self.gate_count * units))
            self.candidate_gain = nn.Parameter(torch.empty(cells, 1, units))
        if has_overwrite:
            self.overwrite_weight = nn.Parameter(torch.empty(cells, inputs, units))
            self.overwrite_bias = nn.Parameter(torch.empty(cells, 1, units))

    def gates_of(self, inputs: Tensor) -> Tensor:
        """Return what inputs (rows, inputs) add to the gates of every cell, (cells, rows, blocks * units)."""
        gates = torch.matmul(inputs, self.input_weight)
        if self.is_normalised:
            gates = normalise_blocks(gates, self.input_gain, self.units)
        gates = gates + self.bias
        if not self.has_overwrite:
            return gates
        return torch.cat([gates, torch.matmul(inputs, self.overwrite_weight) + self.overwrite_bias], dim=-1)

    def step(self, gates: Tensor, states: Tensor) -> Tensor:
        """Return the next states (cells, rows, units), from gates as `gates_of` returns them."""
        units, gated = self.units, self.gate_count * self.units
        recalled = torch.bmm(states, self.gate_weight)
        if self.is_normalised:
            recalled = normalise_blocks(recalled, self.gate_gain, units)
        opened = torch.sigmoid(gates[..., :gated] + recalled)
        proposed = torch.bmm(opened[..., :units] * states, self.candidate_weight)
        if self.is_normalised:
            proposed = normalise_blocks(proposed, self.candidate_gain, units)
        candidate = torch.tanh(gates[..., gated : gated + units] + proposed)
        if self.has_overwrite:
            candidate = torch.lerp(candidate, gates[..., gated + units :], opened[..., 2 * units :])
        return torch.lerp(states, candidate, opened[..., units : 2 * units])

    def run(self, gates: Tensor, counts: Sequence[int], states: Tensor) -> Tensor:
        """Return the states after every step, packed as the gates are, (cells, all steps, units).

        `counts` are the rows of each step, which never grow; `states` (cells, rows, units) are those to begin with.

        In mixed precision the steps stay in single precision: their matrices are small, and rounding adds up.
        """
        with torch.autocast(gates.device.type, enabled=False):
            gates, states, after = gates.to(self.bias.dtype), states.to(self.bias.dtype), list[Tensor]()
            for of_step in torch.split(gates, list(counts), dim=1):
                count = of_step.shape[1]
                if count < states.shape[1]:
                    states = states[:, :count]
                states = self.step(of_step, states)
                after.append(states)
            return torch.cat(after, dim=1)
