"""LSTM and GRU with explicit state."""

from collections.abc import Sequence

import torch

from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, PolicyState, Tensors


def rnn_states(rnn: torch.nn.Module) -> list[PolicyState]:
    """The state of an LSTM (`h` and `c`) or GRU (`h`), of shape (layers, batch, size).

    Raises:
        PolicyError: If it is neither an LSTM nor a GRU, or is bidirectional.
    """
    if not isinstance(rnn, torch.nn.LSTM | torch.nn.GRU):
        raise PolicyError(f"A recurrent policy must have an LSTM or a GRU, got {type(rnn).__name__}.")
    if rnn.bidirectional:
        raise PolicyError("A bidirectional recurrent network cannot run step by step. Use a unidirectional network.")
    if not isinstance(rnn, torch.nn.LSTM):
        return [PolicyState("h", (rnn.num_layers, BATCH, rnn.hidden_size))]
    return [
        PolicyState("h", (rnn.num_layers, BATCH, rnn.proj_size or rnn.hidden_size)),
        PolicyState("c", (rnn.num_layers, BATCH, rnn.hidden_size)),
    ]


def named_states(sizes: Sequence[tuple[int, int]], *, is_lstm: bool) -> list[PolicyState]:
    """States of the given layers and widths: `h` and `c` for one recurrent network, otherwise numbered."""
    names = ["h", "c"][: len(sizes)] if len(sizes) == 1 or (len(sizes) == 2 and is_lstm) else None
    names = names or [f"rnn_{index}" for index in range(len(sizes))]
    return [PolicyState(name, (layers, BATCH, width)) for name, (layers, width) in zip(names, sizes, strict=True)]


def rnn_step(rnn: torch.nn.Module, features: torch.Tensor, states: Tensors) -> tuple[torch.Tensor, Tensors]:
    """Compute one step for features of shape (batch, size)."""
    along_time = 1 if rnn.batch_first else 0
    if isinstance(rnn, torch.nn.LSTM):
        result, (h, c) = rnn(features.unsqueeze(along_time), (states[0], states[1]))
        return result.squeeze(along_time), (h, c)
    result, h = rnn(features.unsqueeze(along_time), states[0])
    return result.squeeze(along_time), (h,)
