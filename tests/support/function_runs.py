"""Runs functions of libraries in torch and in files made of them, at several random values, and compares the two."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from exploy.errors import ExployError
from exploy.exporter.core.components import Input, Output
from tests.support.environments import TestEnvironment
from tests.support.operator_runs import REFUSED, RIGHT, WRONG, Outcome, differences, make_file, run_file

NO_TENSORS, NO_RESULT, RANDOM = "takes no tensors", "returns no tensor", "draws random numbers"
CONSTANT = "always returns the same"
_DRAWS = 5

Draw = Callable[[torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class Call:
    """A call of a function: the tensors that it reads, and the call itself, which reads them in place.

    `draws` makes other values for some of the tensors; the others get values by their type and shape.
    """

    name: str
    inputs: Mapping[str, torch.Tensor]
    function: Callable[[], Any]
    draws: Mapping[str, Draw] = field(default_factory=dict)


class CallingFunction(TestEnvironment):
    """Calls a function between Inputs, which are the tensors that it reads, and Outputs."""

    num_observations = 2

    def __init__(self, call: Call):
        super().__init__(decimation=1)
        self.call = call
        self.results = call_results(call)
        manager = self.context_manager()
        for name in call.inputs:
            manager.add_component(Input(name, lambda name=name: self.call.inputs[name]))  # type: ignore[misc]
        for index in range(len(self.results)):
            manager.add_component(Output(f"y{index}", lambda index=index: self.results[index]))  # type: ignore[misc]

    def observe(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def apply_actions(self) -> None:
        self.results = call_results(self.call)

    def move(self) -> None:
        pass


def call_results(call: Call) -> list[torch.Tensor]:
    """What the function returns, as a list of tensors."""
    with torch.no_grad():
        found = call.function()
    return [item for item in _pytree.tree_leaves(found) if isinstance(item, torch.Tensor)]


def why_skipped(call: Call) -> str | None:
    """Why a call is not one that takes and returns tensors, found by making it; None if it is one."""
    before = torch.get_rng_state()
    found = call_results(call)
    if not torch.equal(before, torch.get_rng_state()):
        return RANDOM
    if not call.inputs:
        return NO_TENSORS
    if not found:
        return NO_RESULT
    return None if _varies(call) else CONSTANT


def _varies(call: Call) -> bool:
    results = []
    with _restored(call):
        for seed in range(_DRAWS):
            draw_values(call, seed)
            results.append([item.clone() for item in call_results(call)])
    return any(not torch.equal(one, two) for other in results for one, two in zip(results[0], other, strict=True))


def run_call(call: Call) -> Outcome:
    """Compare a call with its file, at several random values of what it reads; the tensors are as before afterwards."""
    with _restored(call):
        return _run(call)


@contextlib.contextmanager
def _restored(call: Call) -> Iterator[None]:
    before = {name: value.clone() for name, value in call.inputs.items()}
    try:
        yield
    finally:
        for name, value in before.items():
            call.inputs[name].copy_(value)


def _run(call: Call) -> Outcome:
    draw_values(call, seed=0)
    try:
        program, session = make_file(CallingFunction(call))
    except ExployError as error:
        return Outcome(REFUSED, str(error))
    for seed in range(_DRAWS):
        draw_values(call, seed)
        got = run_file(session, {**program.examples, **call.inputs})
        expected = [item.numpy().copy() for item in call_results(call)]
        for index, value in enumerate(expected):
            for where, mine, theirs in differences(got[f"y{index}"], value):
                return Outcome(WRONG, f"result {index} of draw {seed} at {where}: {mine} instead of {theirs}")
    return Outcome(RIGHT)


def draw_values(call: Call, seed: int) -> None:
    """Write random values into the tensors that a call reads."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in call.inputs.items():
        draw = call.draws.get(name)
        tensor.copy_(draw(generator) if draw else _drawn(tensor, generator))


def _drawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random values: integers among those found, in another order if all differ; rows of four as unit quaternions."""
    if like.dtype is torch.bool:
        return torch.rand(like.shape, generator=generator) > 0.5
    if like.dtype is torch.uint8:
        return torch.randint(0, 256, like.shape, generator=generator)
    if not like.dtype.is_floating_point and like.dim() == 1 and like.unique().numel() == like.numel():
        return like[torch.randperm(like.numel(), generator=generator)]
    if not like.dtype.is_floating_point:
        lowest, highest = int(like.min()), int(like.max())
        return torch.randint(lowest, highest + 1, like.shape, generator=generator)
    values = torch.randn(like.shape, generator=generator)
    return torch.nn.functional.normalize(values, dim=-1) if like.shape[-1:] == (4,) and like.dim() > 1 else values


class _Reads(TorchDispatchMode):
    """Collects the tensors that come from outside: neither made nor seen before by an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []
        self._known: dict[int, torch.Tensor] = {}  # holds the tensors, so that no other gets their id

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for item in _pytree.tree_leaves((args, kwargs or {})):
            if isinstance(item, torch.Tensor) and id(item) not in self._known:
                self._known[id(item)] = item
                self.found.append(item)
        result = func(*args, **(kwargs or {}))
        self._known |= {id(item): item for item in _pytree.tree_leaves(result) if isinstance(item, torch.Tensor)}
        return result


def tensors_read(function: Callable[[], Any]) -> dict[str, torch.Tensor]:
    """The tensors that a function reads from its surroundings, or passes on unread, one for each piece of memory."""
    with torch.no_grad(), _Reads() as reads:
        result = function()
        for item in _pytree.tree_leaves(result):
            if isinstance(item, torch.Tensor):
                item.clone()  # a tensor that is passed on counts as read
    places: dict[tuple[int, int], torch.Tensor] = {}
    for item in reads.found:
        if item.numel():
            places.setdefault((item.data_ptr(), item.numel()), item)
    return {f"x{index}": item for index, item in enumerate(places.values())}
