"""The calls that an environment makes to code that has a substitute."""

import contextlib
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map, tree_map_only

from exploy.capture.recording import plain_torch
from exploy.environment.actor import make_exportable_actor
from exploy.environment.exchanged_code import calls_replaced
from exploy.environment.exportable_environment import ExportableEnvironment, has_reset
from exploy.environment.stages import Stages
from exploy.environment.substitutes import Substitute
from exploy.live.interception import is_plain
from exploy.live.object_graph import is_a
from exploy.live.roots import live_objects
from exploy.live.snapshot import ProtectUnseen, Snapshot

_POLICY_STEPS = 2
_SUB_STEPS = 2


@dataclass(frozen=True)
class WatchedCall:
    """A call that the environment made. Tensors among the arguments are copies; other objects are the live ones.

    Attributes:
        substitute: The substitute of the code that was called.
        name: The name of the function, method or property.
        function: The function itself; its code is the original's unless that is replaced.
        args: The positional arguments.
        kwargs: The other arguments.
        in_pipeline: Whether the pipeline made the call. The others were made by a reset.
    """

    substitute: Substitute
    name: str
    function: types.FunctionType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    in_pipeline: bool = True

    @property
    def receiver(self) -> object:
        """The instance of a replaced class whose method it is; None if no class is replaced."""
        return self.args[0] if self.substitute.owner is not None else None

    @property
    def signature(self) -> str:
        """What is the same for calls with tensors of the same shapes."""
        return f"{self.name} {tree_map(_described, (self.args, self.kwargs))}"

    def copied_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with copies of the tensors."""
        args, kwargs = tree_map_only(torch.Tensor, torch.clone, (self.args, self.kwargs))
        return args, kwargs


def _described(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    return repr(value) if is_a(value, bool | int | float | str | None) else type(value).__qualname__


def watch_calls(env: ExportableEnvironment, actor: torch.nn.Module | None, *, with_reset: bool) -> list[WatchedCall]:
    """Run the pipeline of a live environment, and note the calls of code that has a substitute.

    All changes are undone so far as state is in Python and torch. If the environment raises, the calls are those until
    then: the capture that follows reports the error.

    Args:
        env: The environment.
        actor: The actor; if None, the actions are zeros.
        with_reset: Also reset the environment, if it implements `reset()`.
    """
    calls: list[WatchedCall] = []
    exportable = make_exportable_actor(actor if actor is not None else _Zeros(env))
    snapshot = Snapshot(live_objects(env, exportable))
    with snapshot, plain_torch(), ProtectUnseen(snapshot), snapshot.gradient_mode(), contextlib.suppress(Exception):
        with _noted(env.context_manager().substitutes, calls, in_pipeline=True):
            _run_pipeline(Stages(env, exportable))
        if with_reset and has_reset(env):
            with _noted(env.context_manager().substitutes, calls, in_pipeline=False):
                env.reset()
    return calls


class _Zeros(torch.nn.Module):
    """An actor that does nothing."""

    def __init__(self, env: ExportableEnvironment):
        super().__init__()
        self._env = env

    def forward(self, observations: object) -> torch.Tensor:
        """Actions that are zeros."""
        return self._env.empty_actions()


def _run_pipeline(stages: Stages) -> None:
    for _ in range(_POLICY_STEPS):
        stages.process(stages.act(stages.observe()))
        for _ in range(_SUB_STEPS):
            stages.sub_step()


@contextlib.contextmanager
def _noted(substitutes: Iterable[Substitute], calls: list[WatchedCall], in_pipeline: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for item in substitutes:
            depth = [0]
            for name, function in functions_of(item).items():
                stack.enter_context(calls_replaced(function, _noting(item, name, function, calls, depth, in_pipeline)))
        yield


def functions_of(item: Substitute) -> dict[str, types.FunctionType]:
    """The functions of an original; of a class all of its methods and properties, also those that are not replaced."""
    found = {pair.name: pair.original for pair in item.pairs}
    for owner in item.owner.__mro__ if item.owner is not None else ():
        for name, member in vars(owner).items():
            function = member.fget if isinstance(member, property) else member
            if isinstance(function, types.FunctionType) and is_plain(function.__code__) and name != "__init__":
                found.setdefault(name, function)
    return found


def _noting(
    item: Substitute,
    name: str,
    function: types.FunctionType,
    calls: list[WatchedCall],
    depth: list[int],
    in_pipeline: bool,
) -> Callable[..., Any]:
    """Note the calls of a function that are not made by another function of the same original."""

    def noting(original: types.FunctionType, *args: Any, **kwargs: Any) -> Any:
        if depth[0] == 0 and item.stands_for(args):
            copied_args, copied_kwargs = tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
            calls.append(WatchedCall(item, name, function, copied_args, copied_kwargs, in_pipeline))
        depth[0] += 1
        try:
            return original(*args, **kwargs)
        finally:
            depth[0] -= 1

    return noting
