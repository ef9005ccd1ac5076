"""All known ways in which a value can leave torch, and what a capture does with each.

`tests/capture/test_ways_out_of_torch.py` tries each row. `python -m tools.ways_out_of_torch` prints them as
`docs/ways_out_of_torch.md`.
"""

import array
import copy
import ctypes
import io
import itertools
import json
import math
import operator
import pickle
import re
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch

from exploy.exporter.core.components import Input, Output
from tests.support.environments import TestEnvironment


class Outcome(StrEnum):
    """What becomes of a value."""

    FOLLOWED = "followed"
    REFUSED = "refused"
    FROZEN = "frozen, listed"
    NO_VALUE = "reads no value"
    COMPARISON = "refused by the comparison at the end of an export"


@dataclass(frozen=True)
class Way:
    """An expression, and what becomes of it for a value that depends on an Input, and for a constant."""

    code: str
    of_input: Outcome
    of_constant: Outcome


def _ways(of_input: Outcome, of_constant: Outcome, lines: str) -> list[Way]:
    return [Way(line.strip(), of_input, of_constant) for line in lines.strip().splitlines()]


def _read(lines: str) -> list[Way]:
    return _ways(Outcome.REFUSED, Outcome.FROZEN, lines)


def _followed(lines: str) -> list[Way]:
    return _ways(Outcome.FOLLOWED, Outcome.FROZEN, lines)


def _refused(lines: str) -> list[Way]:
    return _ways(Outcome.REFUSED, Outcome.REFUSED, lines)


WAYS: dict[str, list[Way]] = {
    "Numbers and branches": [
        *_read("""
            bool(x[0, 0] > 0)
            1.0 if x.sum() > 0 else 2.0
            x[0, 0] > 0 and 1.0
            not x[0, 0]
            int(x[0, 0])
            float(x[0, 0])
            complex(x[0, 0]).real
            x[0, 0].item()
            x.tolist()
            math.floor(x[0, 0])
            math.sin(x[0, 0])
            "%.3f" % x[0, 0]
            struct.pack("f", x[0, 0])[1]
            array.array("f", x[0])[0]
            json.dumps(x.tolist())
            max(x[0])
            sorted(x[0])[0]
            any(x[0])
            0.5 in x
            torch.equal(x, z)
            torch.allclose(x, z)
            torch.is_nonzero(x[0, 0])
            x.argmax().item()
            caught(float, x[0, 0])
        """),
        *_followed("""
            sum(x[0])
            list(x[0])
            next(iter(x[0]))
            next(itertools.accumulate(x[0]))
            torch.isclose(x, z)
            torch.where(x > 0, 1.0, -1.0)
            torch.clamp(z, min=x[0, 0])
        """),
        *_ways(Outcome.NO_VALUE, Outcome.NO_VALUE, "len(x)\nx.shape[1]\nx.dim()\nhash(x) and 1.0"),
    ],
    "Indices and sizes": [
        *_read("""
            operator.index(i[0])
            [1.0, 2.0][i[0]]
            "12"[i[0]]
            range(i[0] + 1).stop
            z[0, : i[0] + 1].sum()
            z.select(1, i[0])
            torch.split(z[0], [i[0] + 1, 1 - i[0]])[0].sum()
            z.roll(int(i[0]))
            torch.arange(i[0] + 1).sum()
            torch.zeros(i[0] + 1).sum()
            z.expand(i[0] + 1, 2).sum()
            len(x.nonzero())
            x.unique().sum()
            torch.unique_consecutive(x).sum()
            x[0].repeat_interleave(i + 1).sum()
            torch.bincount(i).sum()
            torch.nn.functional.one_hot(i).sum()
            x[x > 0].median()
            x[x > 0].cumsum(0).sum()
            x[x > 0].tolist()
            x[x > 0][0]
            list(x[x > 0])
            torch.zeros(x[x > 0].shape[0]).sum()
        """),
        *_followed("""
            z[0, i[0]]
            caught(operator.getitem, z, (0, i[0]))
            torch.where(x > 0)[0].sum()
            torch.argwhere(x > 0).sum()
            x[x > 0].sum()
            x.masked_select(x > 0).sum()
            z[:, i]
            z[0, i[:1]]
            z.index_select(1, i)
            z.narrow(1, i[0], 1)
            torch.take(z, i)
            z.gather(1, i[None])
            torch.nn.functional.one_hot(i, 4).sum()
        """),
    ],
    "numpy, DLPack and memory": [
        *_read("""
            x.numpy()
            x.detach().cpu().numpy()
            x.numpy(force=True)
            x.__array__()
            np.asarray(x)
            np.array(x)
            np.sin(x)
            np.add(x, 1)
            np.float32(x[0, 0])
            np.stack([x[0, 0], x[0, 1]])
            np.full(2, x[0, 0])
            np.interp(x[0, 0], [0, 1], [0, 1])
            np.arange(2.0)[i]
            np.where(x > 0, 1.0, 0.0)
            np.multiply(np.ones(2), x)
            np.from_dlpack(x)
            torch.from_dlpack(x)
            torch.utils.dlpack.from_dlpack(x)
            ctypes.c_float.from_address(x.data_ptr()).value
        """),
        *_refused("""
            x.storage()[0]
            x.untyped_storage()[0]
            x.untyped_storage().tolist()[1]
        """),
        *_followed("""
            torch.from_numpy(np.ones((1, 2), np.float32)) * x
            x.data * 2
            x.detach() * 2
            x.as_subclass(torch.nn.Buffer) * 2
            setattr(w := z.clone(), "data", x) or w * 2
            z.clone().set_(x) * 2
            x.view(torch.int32) * 2
        """),
    ],
    "New tensors from values": [
        *_followed("""
            torch.tensor([x[0, 0], x[0, 1]])
            torch.tensor([[x[0, 0] > 0.2]])
            torch.tensor(x)
            torch.as_tensor([x[0, 0], 3])
            torch.asarray([x[0, 0], 3.0])
            x.new_tensor([x[0, 0], 3.0])
            torch.stack(list(x[0]))
            torch.linspace(x[0, 0], 3, 2)
            z.clone().fill_(x[0, 0])
            copy.deepcopy(x)
        """),
        *_read("""
            torch.Tensor([x[0, 0], x[0, 1]])
            torch.FloatTensor([x[0, 0], x[0, 1]])
            torch.scalar_tensor(x[0, 0])
            torch.full((2,), x[0, 0])
            torch.full_like(z, x[0, 0])
            x.new_full((2,), x[0, 0])
            torch.arange(x[0, 0], 3)
        """),
        *_refused("copy.copy(x)"),
    ],
    "Text and files": [
        *_read("""
            str(x)
            repr(x)
            f"{x[0, 0]}"
            "{:.3f}".format(x[0, 0])
            print(x, file=io.StringIO()) or 1.0
        """),
        *_ways(
            Outcome.REFUSED, Outcome.NO_VALUE, "pickle.dumps(x) and 1.0\ntorch.save(x, io.BytesIO()) or 1.0"
        ),
    ],
    "Code that torch does not see into": [
        *_refused("""
            x.clone().apply_(lambda value: 2 * value)
            x.clone().map_(z, lambda a, b: a * b)
            x.to_sparse().to_dense()
        """),
        *_read("NumpyFunction.apply(x)\nscripted_branch(x)"),
        *_followed("TorchFunction.apply(x)\ntorch.vmap(lambda row: row * 2)(x)"),
        *_ways(Outcome.COMPARISON, Outcome.NO_VALUE, "in_a_thread(float, x[0, 0])\nin_a_thread(torch.neg, x)"),
    ],
}  # fmt: skip


@torch.jit.script
def scripted_branch(value: torch.Tensor) -> torch.Tensor:
    """Double positive values; branches in TorchScript."""
    if bool(value.sum() > 0):
        return value * 2
    return value


class TorchFunction(torch.autograd.Function):
    """A function with a gradient of its own, in torch."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        """Double a value."""
        return value * 2


class NumpyFunction(torch.autograd.Function):
    """A function with a gradient of its own, in numpy."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        """Double a value."""
        return torch.from_numpy(value.numpy() * 2)


def in_a_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def caught(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and catch whatever it raises."""
    try:
        return function(*arguments)
    except Exception:
        return 3.0


NAMES: dict[str, object] = {
    **{
        module.__name__: module for module in (array, copy, ctypes, io, itertools, json, math, operator, pickle, struct)
    },
    **{item.__name__: item for item in (TorchFunction, NumpyFunction, in_a_thread, caught)},
    "np": np,
    "torch": torch,
    "scripted_branch": scripted_branch,
}


class OneExpression(TestEnvironment):
    """Observes the value of one expression of `x` and `i`, which are Inputs or constants, and an Input besides."""

    num_observations = 2

    def __init__(self, code: str, of_input: bool):
        super().__init__()
        self._code = compile(code, __file__, "eval")
        self._of_input = of_input
        self.state = torch.tensor([[0.5, -0.5]])
        self.counts = torch.tensor([0, 1])
        self.setting = torch.tensor([[0.5, -0.5]])
        self.numbers = torch.tensor([0, 1])
        self.fixed = torch.tensor([[2.0, 3.0]])
        manager = self.context_manager()
        manager.add_component(Input("state", lambda: self.state))
        manager.add_component(Input("counts", lambda: self.counts))
        manager.add_component(Output("targets", lambda: self.targets))
        manager.add_constant("fixed", lambda: self.fixed)

    def observe(self) -> torch.Tensor:
        """The value of the expression as a tensor, added to the state."""
        x, i = (self.state, self.counts) if self._of_input else (self.setting, self.numbers)
        return _as_tensor(eval(self._code, NAMES, {"x": x, "i": i, "z": self.fixed})) + self.state

    def move(self) -> None:
        """Move all Inputs."""
        self.state += self.noise(self.state)
        self.counts[:] = 1 - self.counts


def _as_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        flat = value.reshape(-1).float()
        return (flat[:2] if flat.numel() > 1 else flat.expand(2))[None]
    if isinstance(value, list) and isinstance(value[0], torch.Tensor):
        return torch.stack(value)[None]
    if isinstance(value, str):
        value = float((re.findall(r"-?\d+\.?\d*", value) or ["1"])[0])
    return torch.as_tensor(np.resize(np.asarray(value, dtype=np.float32), (1, 2)))
