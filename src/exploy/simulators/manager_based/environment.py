"""The adapter of manager-based environments; a subclass for each simulator says what its robots can give."""

import contextlib
import difflib
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from exploy.capture.capture import capture
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Input, Memory, Output
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.observations import observation_ports
from exploy.environment.offered_ports import OfferedPort
from exploy.environment.substitutes import Substitute
from exploy.errors import DuplicateNameError, InvalidEnvironmentError
from exploy.simulators.manager_based.input_sources import with_sources
from exploy.simulators.manager_based.interface_names import is_known_to_robots
from exploy.simulators.manager_based.memories import action_memories, buffer_memories, modifier_memories
from exploy.simulators.manager_based.motors import Motors
from exploy.simulators.manager_based.replaced_attributes import attributes_replaced
from exploy.simulators.manager_based.robot_ports import RobotPort, register
from exploy.simulators.manager_based.step_hooks import StepHooks
from exploy.simulators.manager_based.used_ports import used_ports
from exploy.verify.trusted_substitutes import trusted_substitutes


class ManagerBasedEnvironment(ExportableEnvironment):
    """A manager-based environment, with everything registered that its observations and actions use.

    The environment is reset, since histories have no memory before that. Subclasses offer more Inputs and Memories than
    needed. The pipeline is captured once, and those that it does not use are dropped. Everything that training adds to
    what a robot measures is off while methods of this class run: noise of observations, and biases of sensors. After
    each call these are as they were.

    Args:
        env: The environment, with one robot.
        groups: The groups of observations that the policy reads. One group is given to the actor as a tensor, several
            in a dictionary.
        clip_actions: The limit that the training library's wrapper sets to actions; None for none.
        motors: Models of motors that the file computes as well, between the targets and the simulator.
        register: Whether to register Inputs, Memories and Outputs; if not, that is left to `add_ports()`.

    Raises:
        InvalidEnvironmentError: If there are several robots, or a group does not exist.
        CaptureError: If the observation or action code cannot be captured; the message names the line.
    """

    def __init__(
        self,
        env: Any,
        groups: Sequence[str],
        clip_actions: float | None = None,
        motors: Motors | None = None,
        register: bool = True,
    ):
        super().__init__()
        self._env = env
        self._groups = tuple(groups)
        self._clip_actions = clip_actions
        self._motors = motors
        self._last_observations: Any = None
        self._neutral = {
            name: torch.zeros_like(getattr(owner, attribute))
            for name, (owner, attribute) in self.sensor_faults().items()
        }
        last_of_sub_step = (env.scene, "write_data_to_sim") if motors is not None else None
        self._hooks = StepHooks(env, self._neutralize, last_of_sub_step)
        self._require_one_robot()
        self._require_groups()
        self.reset()
        self._used: set[str] = set()
        self._prepare_registration()
        if register:
            self.add_ports(*(port.name for port in self.offered_ports(with_choices=False)))

    # -- what a simulator differs in ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def sim_dt(self) -> float:
        """The time of a simulation step in seconds."""

    @abstractmethod
    def robot_ports(self) -> Iterable[RobotPort]:
        """Everything that a robot or its operator could give, and what it gets: Inputs and Outputs."""

    @abstractmethod
    def base_names(self) -> dict[str, str]:
        """The name of the base body of each robot."""

    @abstractmethod
    def delay_memories(self, group: str, term: str, buffer: Any) -> Iterable[RobotPort]:
        """What the delay of an observation keeps.

        Raises:
            InvalidEnvironmentError: If the delay is drawn at random.
        """

    def substitutes(self) -> Iterable[Substitute]:
        """Substitutes for code of the library that cannot be captured. Those that are not called are left out."""
        return ()

    def sensor_faults(self) -> Mapping[str, tuple[Any, str]]:
        """Attributes with simulated faults of sensors, as (owner, attribute): tensors that are zero without a fault."""
        return {}

    # -- the environment ---------------------------------------------------------------------------------------------

    @property
    def env(self) -> Any:
        """The environment of the simulator."""
        return self._env

    def __str__(self) -> str:
        unknown = ", ".join(self.names_unknown_to_robots)
        note = f"\nControllers of robots have no agreed name for {unknown}." if unknown else ""
        return f"{self.context_manager()}{note}"

    @property
    def names_unknown_to_robots(self) -> list[str]:
        """The Inputs and Outputs that controllers of robots have no agreed name for."""
        manager = self.context_manager()
        ports: list[Input | Output] = [*manager.get_input_components(), *manager.get_output_components()]
        return [item.name for item in ports if not isinstance(item, Memory) and not is_known_to_robots(item.name)]

    def compute_observations(self) -> Observations:
        """Compute the observations of the groups that the policy reads."""
        with self._as_on_robot():
            compute = self._env.observation_manager.compute_group
            return self._chosen({group: compute(group, update_history=True) for group in self._groups})

    def process_actions(self, actions: torch.Tensor) -> None:
        """Clip actions as the wrapper does, and process them."""
        with self._as_on_robot():
            self._env.action_manager.process_action(self._clipped(actions))

    def apply_actions(self) -> None:
        """Set the targets of the actuators for one simulation step, and compute efforts if motors are in the file."""
        with self._as_on_robot():
            self._env.action_manager.apply_action()
            if self._motors is not None:
                self._motors.compute()

    def prepare_export(self) -> None:
        """Reset the environment, if others have stepped it since this adapter did."""
        if not self._is_last():
            self.reset()

    def reset(self) -> None:
        """Start an episode."""
        with self._as_on_robot(), self._hooks.installed():
            self._last_observations = self._env.reset()[0]
            if self._motors is not None:
                self._motors.reset()

    def step(self, actions: torch.Tensor) -> tuple[Observations, bool]:
        """Step the environment, and reset it when an episode ends."""
        with self._as_on_robot(), self._hooks.installed():
            observations, _, terminated, truncated, _ = self._env.step(self._clipped(actions))
            is_over = bool((terminated | truncated).any())
            if is_over and not getattr(self._env.cfg, "auto_reset", True):
                observations = self._env.reset()[0]
        self._last_observations = observations
        return self._chosen(observations), is_over

    def observations_reset(self) -> Observations:
        """The observations that the last step or reset has returned; computing them again would add to histories."""
        if not self._is_last():
            self.reset()
        return self._chosen(self._last_observations)

    def empty_actor_observations(self) -> Observations:
        """Zeros with the shape of the observations."""
        return _zeros_like(self.observations_reset())

    def empty_actions(self) -> torch.Tensor:
        """Zeros with the shape of the actions."""
        manager = self._env.action_manager
        return torch.zeros(1, manager.total_action_dim, device=self._env.device)

    @property
    def decimation(self) -> int:
        """Number of simulation steps per policy step."""
        return int(self._env.cfg.decimation)

    def metadata(self) -> dict[str, Any]:
        """What controllers of robots read beside the ports."""
        names = self._env.observation_manager.active_terms
        return {
            "sim_dt": str(self.sim_dt),
            "update_rate": str(1.0 / self.sim_dt),
            "base_names": self.base_names(),
            "obs_term_names": [name for group in self._groups for name in names[group]],
        }

    def register_evaluation_hooks(
        self,
        update: Callable[[], None],
        reset: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        """Call these functions while the environment steps."""
        self._hooks.register(update, reset, evaluate_substep)

    def get_observation_names(self) -> list[str] | Mapping[str, Any]:
        """The name of the term and a number for each element; images have none."""
        names = {group: self._names_of(group) for group in self._groups}
        if len(names) > 1:
            return {group: found for group, found in names.items() if found}
        return names[self._groups[0]] or []

    # -- registration ------------------------------------------------------------------------------------------------

    def offered_ports(self, *, with_choices: bool = True) -> list[OfferedPort]:
        """What the pipeline uses and is not registered yet, and all Outputs.

        Args:
            with_choices: Also find out what could be given instead of ports that the environment computes from others.
        """
        known = self.context_manager().get_component_by_name
        offered = [port for port in self._table().values() if port.kind is Output or port.name in self._used]
        return [
            OfferedPort(port.kind.__name__.lower(), port.name, self._instead_of(port) if with_choices else ())
            for port in offered
            if known(port.name) is None
        ]

    def add_ports(self, *names: str) -> None:
        """Register ports of the simulator by their names.

        Raises:
            InvalidEnvironmentError: If there is no port of a name.
            DuplicateNameError: If one is registered already.
        """
        table = self._table()
        unknown = [name for name in names if name not in table]
        if unknown:
            near = difflib.get_close_matches(unknown[0], table, n=3, cutoff=0.4)
            raise InvalidEnvironmentError(f"The environment has no port {unknown[0]!r}. Similar: {', '.join(near)}.")
        register(self.context_manager(), [table[name] for name in names])

    def _table(self) -> dict[str, RobotPort]:
        """All ports of the simulator; it is not kept, so that the paths of tensors do not lead through it."""
        motors = self._motors.ports() if self._motors is not None else ()
        ports = with_sources([*self.robot_ports(), *self._memories(), *motors], self.base_names())
        twice = [name for name, count in Counter(port.name for port in ports).items() if count > 1]
        if twice:
            raise DuplicateNameError(f"The environment has two ports of the name {twice[0]!r}.")
        return {port.name: port for port in ports}

    def _prepare_registration(self) -> None:
        """Find out what the pipeline uses, and register all but ports."""
        self._add_constants()
        self._used, substitutes = self._try([port for port in self._table().values() if not port.instead_of])
        self.context_manager().add_substitutes(substitutes)

    def _add_constants(self) -> None:
        for name in self._neutral:
            self.context_manager().add_constant(name, partial(self._neutral.__getitem__, name))

    def _instead_of(self, port: RobotPort) -> tuple[str, ...]:
        """The names of the ports that the pipeline uses if it does not get this one."""
        others = [
            item for item in self._table().values() if item.instead_of in ("", port.name) and item.name != port.name
        ]
        if not port.is_computed and all(item.instead_of != port.name for item in others):
            return ()
        known, self._context_manager = self._context_manager, ContextManager()
        try:
            self._add_constants()
            used, _ = self._try(others)
        finally:
            self._context_manager = known
        return tuple(item.name for item in others if item.name in used - self._used)

    def _memories(self) -> Iterator[RobotPort]:
        yield from action_memories(self._env.action_manager)
        yield from modifier_memories(self._env.observation_manager, self._groups)
        yield from buffer_memories(self._env.observation_manager, self._groups, self.delay_memories)

    def _try(self, offered: list[RobotPort]) -> tuple[set[str], list[Substitute]]:
        """Capture the pipeline once; return the names of the Inputs and Memories, and the substitutes, that it uses."""
        manager, actor = self.context_manager(), _AnyActor(self.empty_actions())
        substitutes = list(self.substitutes())
        with manager.registrations_undone():
            register(manager, offered)
            _fetch_all(manager)
            manager.add_substitutes(substitutes)
            with trusted_substitutes(self, actor, with_reset=False) as found:
                used = used_ports(capture(self, actor))
            names = {item.name for item in manager.get_input_components() if item.input_name in used}
        return names, [item for item in substitutes if item.name not in found.unused]

    def _require_one_robot(self) -> None:
        if self._env.num_envs != 1:
            raise InvalidEnvironmentError(
                f"A file is for one robot, but the environment has {self._env.num_envs}. Make it with "
                "cfg.scene.num_envs = 1."
            )

    def _require_groups(self) -> None:
        known = self._env.observation_manager.active_terms
        missing = [group for group in self._groups if group not in known]
        if missing or not self._groups:
            raise InvalidEnvironmentError(
                f"The policy should read the groups of observations {', '.join(self._groups) or 'none'}, but the "
                f"environment has {', '.join(known)}. Pass groups=(…,) with the groups that the actor was trained with."
            )

    # -- what training adds ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _as_on_robot(self) -> Iterator[None]:
        """Switch off noise of observations and faults of sensors."""
        faults = [(*place, self._neutral[name]) for name, place in self.sensor_faults().items()]
        with attributes_replaced([*faults, *self._noiseless()]):
            yield

    def _noiseless(self) -> Iterator[tuple[Any, str, None]]:
        for configurations in self._env.observation_manager._group_obs_term_cfgs.values():
            for configuration in configurations:
                if configuration.noise is not None:
                    yield configuration, "noise", None

    def _neutralize(self) -> None:
        """Undo what events have written to attributes that must stay neutral."""
        for value in self._neutral.values():
            if value.any():
                value.zero_()

    # -- observations and actions ------------------------------------------------------------------------------------

    def _is_last(self) -> bool:
        """Whether the environment was last stepped or reset by this adapter."""
        return self._last_observations is not None and self._env.obs_buf is self._last_observations

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        if self._clip_actions is None:
            return actions
        return torch.clamp(actions, -self._clip_actions, self._clip_actions)

    def _chosen(self, observations: Mapping[str, Any]) -> Observations:
        chosen = {group: observations[group] for group in self._groups}
        return chosen if len(chosen) > 1 else chosen[self._groups[0]]

    def _names_of(self, group: str) -> Any:
        manager = self._env.observation_manager
        sizes = dict(zip(manager.active_terms[group], manager.group_obs_term_dim[group], strict=True))
        if not manager.group_obs_concatenate[group]:
            return {name: _numbered(name, size) for name, size in sizes.items() if len(size) == 1}
        if any(len(size) != 1 for size in sizes.values()):
            return None
        return [element for name, size in sizes.items() for element in _numbered(name, size)]


class _AnyActor(ExportableActor):
    """Reads all observations, to find out what they are computed from."""

    def __init__(self, actions: torch.Tensor):
        super().__init__()
        self._actions = actions

    def forward(self, obs: Observations) -> torch.Tensor:
        return self._actions + sum(tensor.float().mean() for tensor in observation_ports(obs).values())


def _fetch_all(manager: ContextManager) -> None:
    """Make what is made when it is first read, so that comparisons of substitutes see it."""
    for item in [*manager.get_input_components(), *manager.get_output_components()]:
        item.fetch()


def _numbered(name: str, size: Sequence[int]) -> list[str]:
    return [f"{name}_{number}" for number in range(math.prod(size))]


def _zeros_like(observations: Any) -> Any:
    if isinstance(observations, torch.Tensor):
        return torch.zeros(observations.shape, dtype=observations.dtype, device=observations.device)
    return {name: _zeros_like(value) for name, value in observations.items()}
