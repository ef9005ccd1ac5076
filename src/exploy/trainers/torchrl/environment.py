"""A TorchRL environment with its transforms, for the environment exporter."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from exploy.environment.components import Input, Memory, Output
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import InvalidEnvironmentError
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.stages import Chain, chain_of
from exploy.trainers.torchrl.tensordicts import EXTRA, Key, Layout, as_key, listed, port_name, require_usable_names
from exploy.trainers.torchrl.torchrl_internals import RUNNING_NORMALIZATIONS, observer
from exploy.trainers.torchrl.transforms import inverse_stages, parts_of, transform_stages

_TOLERANCE = 1e-5


class TorchRlEnvironment(ExportableEnvironment):
    """The transforms of a TransformedEnv as an exportable environment.

    The inputs are the observations of the base environment, named by their keys. The output is the action that the base
    environment receives. The memories are the states of the transforms. In each step, the observations are compared
    with those of the environment's own transforms.

    Args:
        env: A TransformedEnv for one robot: without batch dimensions, or with a batch size of 1.
        observation_key: The key that the policy reads.
        action_key: The key of the actions.
        observation_names: A name for each element of the observation. Default: numbered names.

    Raises:
        InvalidEnvironmentError: If it is not a TransformedEnv, has several robots, or updates running statistics.
        PolicyError: If a transform cannot be exported, or a key is missing in the base environment.
    """

    def __init__(
        self,
        env: Any,
        *,
        observation_key: Any = "observation",
        action_key: Any = "action",
        observation_names: Sequence[str] | None = None,
    ):
        super().__init__()
        _require_suitable(env)
        self._observation, self._action = as_key(observation_key), as_key(action_key)
        self._observing = chain_of(transform_stages(env), [self._observation], {})
        self._acting = chain_of(inverse_stages(env, self._action), [self._action], {})
        self._batch_dims = len(env.batch_size)
        self._layout = Layout(self._batched(env.base_env.fake_tensordict()))
        self._raw = {key: self._layout.tensor(key, self._observing.readers[key]) for key in self._observing.observed}
        require_usable_names(self._raw)
        self._live = _noting(env, self._note)
        self._current = self._live.reset()
        self._kept = _starts(self._observing, self._layout, self._raw)
        self._starts = {key: value.clone() for key, value in self._kept.items()}
        self._is_fresh, self._is_in_step = True, True
        self.register_evaluation_hooks(_do_nothing, _do_nothing, _do_nothing)
        example = self._batched(env.fake_tensordict())
        self._empty_actions = torch.zeros_like(example.get(self._action))
        self._targets = self._to_base(self._empty_actions)
        self._applied = self._targets.clone()
        size = self._computed()[0].shape[-1]
        self._names = list(observation_names or (f"{port_name(self._observation)}_{index}" for index in range(size)))
        self._register()

    def compute_observations(self) -> torch.Tensor:
        """Apply the transforms to the raw observations."""
        observations, remembered = self._computed()
        for key, value in remembered.items():
            self._kept[key][...] = value
        return observations

    def process_actions(self, actions: torch.Tensor) -> None:
        """Turn actions of the policy into actions of the base environment."""
        self._targets = self._to_base(actions)

    def apply_actions(self) -> None:
        """Copy the processed actions to the output."""
        self._applied = self._targets.clone()

    def prepare_export(self) -> None:
        """Reset the environment."""
        self._current = self._live.reset()
        self._start_anew()

    def empty_actor_observations(self) -> torch.Tensor:
        """Zeros like the observations."""
        return torch.zeros_like(self._computed()[0])

    def empty_actions(self) -> torch.Tensor:
        """Zeros like the actions."""
        return self._empty_actions.clone()

    def metadata(self) -> dict[str, Any]:
        """The class name of the base environment."""
        return {"environment": str(type(self._live.base_env).__name__)}

    @property
    def decimation(self) -> int:
        """Always 1: the base environment is stepped once per policy step, even if it skips frames internally."""
        return 1

    def register_evaluation_hooks(
        self,
        update: Callable[[], None],
        reset: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        """Store the three functions that are called while the environment steps."""
        self._on_update, self._on_reset, self._on_sub_step = update, reset, evaluate_substep

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Step the environment, and reset it if the episode ends.

        Raises:
            InvalidEnvironmentError: If the environment's own transforms return a different observation.
        """
        with torch.no_grad():
            self.process_actions(actions)
            self.apply_actions()
            self._on_sub_step(0)
            self._current.set(self._action, actions if self._batch_dims else actions[0])
            stepped, self._current = self._live.step_and_maybe_reset(self._current)
            if bool(stepped.get(("next", "done")).any()):
                self._start_anew()
                self._on_reset()
                return self._own_observations(), True
            self._is_fresh = False
            self._on_update()
            return self._compared(self.compute_observations()), False

    def get_observation_names(self) -> list[str]:
        """The given names, or numbered names."""
        return list(self._names)

    def observations_reset(self) -> torch.Tensor:
        """The observations of the current state.

        Raises:
            InvalidEnvironmentError: If the environment's own transforms return a different observation.
        """
        self._is_in_step &= self._is_fresh or not self._kept
        self._is_fresh = False
        self._on_update()
        return self._compared(self.compute_observations())

    def _computed(self) -> tuple[torch.Tensor, dict[Key, torch.Tensor]]:
        tensordict = self._observing.run(self._layout.tensordict({**self._raw, **self._kept}))
        remembered = {memory.read: tensordict.get(memory.written) for memory in self._observing.memories}
        return tensordict.get(self._observation), remembered

    def _to_base(self, actions: torch.Tensor) -> torch.Tensor:
        tensordict = self._acting.run(self._layout.tensordict({self._action: actions}))
        targets: torch.Tensor = tensordict.get(self._action)
        return targets

    def _note(self, tensordict: Any) -> None:
        raw = self._batched(tensordict)
        for key, tensor in self._raw.items():
            tensor.copy_(raw.get(key))

    def _batched(self, tensordict: Any) -> Any:
        return tensordict if self._batch_dims else tensordict.unsqueeze(0)

    def _start_anew(self) -> None:
        for key, value in self._kept.items():
            value.copy_(self._starts[key])
        self._is_fresh, self._is_in_step = True, True

    def _own_observations(self) -> torch.Tensor:
        observations: torch.Tensor = self._batched(self._current).get(self._observation)
        return observations

    def _compared(self, observations: torch.Tensor) -> torch.Tensor:
        own = self._own_observations()
        if self._is_in_step and not torch.allclose(observations, own, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise InvalidEnvironmentError(
                f"The transforms of the environment return {port_name(self._observation)!r} = {own}, but the exported "
                f"transforms return {observations}. Check for a custom transform that keeps a state, and for other "
                "code that steps the environment."
            )
        return observations

    def _register(self) -> None:
        manager = self.context_manager()
        for key in self._raw:
            manager.add_component(Input(port_name(key), partial(self._raw.__getitem__, key)))
        manager.add_component(Output(port_name(self._action), lambda: self._applied))
        for key in self._kept:
            manager.add_component(Memory(port_name(key), partial(self._kept.__getitem__, key)))


def _require_suitable(env: Any) -> None:
    envs = library("torchrl.envs", EXTRA)
    if not isinstance(env, envs.TransformedEnv):
        raise InvalidEnvironmentError(
            f"The environment must be a TransformedEnv of torchrl, got {type(env).__name__}. Wrap it: "
            "TransformedEnv(env)."
        )
    if tuple(env.batch_size) not in ((), (1,)):
        raise InvalidEnvironmentError(
            f"The environment must have one robot, got a batch size of {tuple(env.batch_size)}. Use a batch size of "
            "() or (1,)."
        )
    for part in parts_of(env):
        if type(part).__name__ in RUNNING_NORMALIZATIONS and not part.frozen:
            raise InvalidEnvironmentError(
                f"{type(part).__name__} updates its statistics with every observation. Freeze it before the export: "
                "env.transform[index].freeze()."
            )


def _do_nothing(*_: Any) -> None:
    """The default evaluation hook."""


def _noting(env: Any, note: Callable[[Any], None]) -> Any:
    """The same base environment and transforms, with a first transform that passes raw tensordicts to `note`."""
    envs = library("torchrl.envs", EXTRA)
    return envs.TransformedEnv(env.base_env, envs.Compose(observer(note), *(part.clone() for part in parts_of(env))))


def _starts(chain: Chain, layout: Layout, raw: dict[Key, torch.Tensor]) -> dict[Key, torch.Tensor]:
    """The initial values of the memories. Their shapes come from one run of the chain."""
    if chain.flags:
        raise InvalidEnvironmentError(
            f"The transforms read {listed(chain.flags)}, which TorchRlEnvironment does not support as an input. Export "
            "the policy with its transforms with export_policy() instead."
        )
    known = {memory.read: memory.start for memory in chain.memories if memory.start is not None and memory.start.ndim}
    tensordict = chain.run(layout.tensordict(raw | known))
    starts = {}
    for memory in chain.memories:
        following = tensordict.get(memory.written)
        start = torch.zeros(()) if memory.start is None else memory.start
        starts[memory.read] = start.to(following.dtype).expand(following.shape).clone()
    return starts
