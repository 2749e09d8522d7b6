"""Networks of torch: their tensors on disk, loading their weights, and computing with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from refaug.core.errors import Corrupt
from refaug.core.files import write_aside

VERSION: Final = torch.__version__
AnyModule = TypeVar("AnyModule", bound=nn.Module)

# ── Tensors on disk: written whole or not at all, and never pickled ───────────────────────────────────────────────────


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file with our own code, since the library's error for a full disk is not an OSError."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with write_aside(path) as file:
        file.write(content)


def read_tensors(path: Path, device: str = "cpu", *, remedy: str) -> dict[str, Tensor]:
    """Read tensors from a file; raise Corrupt if it cannot be read."""
    try:
        tensors: dict[str, Tensor] = load_file(path, device=device)
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{path} cannot be read: {reason}", remedy=remedy) from error
    return tensors


class _WithoutInitialWeights(TorchFunctionMode):
    """Leaves weights as they are: to draw some on the device `meta`, torch would import its compiler, for seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the tensor where a function of torch.nn.init is called, else call it."""
        del types
        named = dict(kwargs or {})
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def with_weights(build: Callable[[], AnyModule], path: Path, *, remedy: str) -> AnyModule:
    """Build a network with the weights of a file; RuntimeError where they are those of another one."""
    tensors = read_tensors(path, remedy=remedy)
    with torch.device("meta"), _WithoutInitialWeights():  # allocates nothing: the weights are replaced anyway
        model = build()
    model.load_state_dict(tensors, assign=True)
    return model


# ── What the networks share ───────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def inference(network: nn.Module, threads: int = 1) -> Iterator[None]:
    """Compute with so many threads, without gradients and without leaving numbers out."""
    if network.training:  # to set it in every part takes a tenth of a rating
        network.eval()
    with torch.inference_mode():
        torch.set_num_threads(threads)
        yield


def last_states(reader: nn.GRU, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Return the last state of both directions, (texts, 2 * hidden), of (texts, time, embedding), longest first."""
    packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True)
    _, last = reader(packed)  # (2, texts, hidden)
    return torch.cat([last[0], last[1]], dim=1)
