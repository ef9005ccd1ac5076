"""A family of environments whose files are right, and one fault for each that makes its file wrong."""

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

import exploy
from exploy.errors import ExployError, ExployWarning
from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.checking import check
from tests.support.environments import make_actor

EVALUATED_STEPS = 30
_START_OF_FILTER = 0.2
_ALWAYS_RESTARTED = "share"  # each policy step writes it before it reads it, so that forgetting it is no fault


class Fault(StrEnum):
    """What is wrong with a file or its environment."""

    NONE = "none"
    FORGOTTEN_INPUT = "forgotten input"
    FORGOTTEN_MEMORY = "forgotten memory"
    WRONG_START = "wrong start value"
    PYTHON_COUNTER = "sub-step counter in Python"
    WRITTEN_BY_STEP = "memory that step() writes"


@dataclass(frozen=True)
class Spec:
    """What an environment is like.

    Attributes:
        hooked: Calls the hooks.
        decimation: Sub-steps in a policy step.
        pd: Has a PD law at the sub-step rate; if False, it gives targets alone.
        history: Number of old positions that observations contain.
        last_action: Observations contain the last action.
        filtered: Actions go through a filter.
        difference: Observations contain the change of the velocity.
        ramp: Targets are approached over the sub-steps.
        rebound: Tensors are replaced; if False, they are written in place.
        depth: Number of objects between the adapter and the environment.
        reset_every: Policy steps in an episode.
        resettable: The adapter implements reset().
        cached: Observations after a reset are those that step() has computed.
        command: "input", "update" for one that a command update computes, or "".
        actor: "mlp", "gru" or "lstm".
        warm: Policy steps before the export.
        reseed: `reset_from_onnx_counter_steps` of the evaluation.
        fault: The fault of the mutant.
        choice: Chooses the component that has the fault.
    """

    hooked: bool
    decimation: int
    pd: bool
    history: int
    last_action: bool
    filtered: bool
    difference: bool
    ramp: bool
    rebound: bool
    depth: int
    reset_every: int
    resettable: bool
    cached: bool
    command: str
    actor: str
    warm: int
    reseed: int | None
    fault: Fault
    choice: int

    @property
    def has_ramp(self) -> bool:
        return self.ramp and self.pd and self.decimation > 1


def specs() -> st.SearchStrategy[Spec]:
    """All environments of the family, each with a fault that it can have."""
    flag = st.booleans()
    return st.builds(
        Spec,
        hooked=flag,
        decimation=st.sampled_from([1, 2, 4]),
        pd=flag,
        history=st.sampled_from([0, 2, 3]),
        last_action=flag,
        filtered=flag,
        difference=flag,
        ramp=flag,
        rebound=flag,
        depth=st.integers(0, 2),
        reset_every=st.integers(5, 12),
        resettable=flag,
        cached=flag,
        command=st.sampled_from(["", "input", "update"]),
        actor=st.sampled_from(["mlp", "gru", "lstm"]),
        warm=st.integers(0, 4),
        reseed=st.sampled_from([None, 1, 50]),
        fault=st.sampled_from([fault for fault in Fault if fault is not Fault.NONE]),
        choice=st.integers(0, 4),
    ).map(_with_what_the_fault_needs)


def _with_what_the_fault_needs(spec: Spec) -> Spec:
    if spec.fault is Fault.PYTHON_COUNTER:
        return replace(spec, pd=True, ramp=True, decimation=max(spec.decimation, 2))
    if spec.fault is Fault.WRITTEN_BY_STEP:
        return replace(spec, difference=True)
    has_memory = spec.last_action or spec.filtered or spec.history or spec.difference or spec.actor != "mlp"
    return spec if has_memory else replace(spec, last_action=True)


class Core:
    """The environment itself, which knows nothing of exploy but for its hooks."""

    def __init__(self, spec: Spec, fault: Fault):
        self.spec = spec
        self.fault = fault
        self._noise = torch.Generator().manual_seed(1)
        self._steps = 0
        self.update: Callable[[], None] = _ignore
        self.reset_hook: Callable[[], None] = _ignore
        self.sub_step: Callable[[int], None] = _ignore
        self.position = torch.tensor([[0.1, 0.2]])
        self.velocity = torch.tensor([[0.3, -0.1]])
        self.heading = torch.tensor([[0.5]])
        self.command = torch.tensor([[0.2, 0.1]])
        self.goal = torch.zeros(1, 2)
        self.torque = torch.zeros(1, 2)
        self.last_action = torch.zeros(1, 2)
        self.filtered = torch.full((1, 2), _START_OF_FILTER)
        self.before = torch.zeros(1, 2)
        self.history = torch.zeros(1, max(spec.history, 1), 2)
        in_memory = spec.has_ramp and fault is not Fault.PYTHON_COUNTER
        self.share: Any = torch.zeros(1, 1) if in_memory else 1.0
        self.growth = 1.0 / spec.decimation if in_memory else 0.0

    def put(self, name: str, value: torch.Tensor) -> None:
        if self.spec.rebound:
            setattr(self, name, value.clone())
        else:
            getattr(self, name).copy_(value)

    def draw(self) -> torch.Tensor:
        return torch.randn(1, 2, generator=self._noise)

    # -- the stages ---------------------------------------------------------------------------------------------

    def update_command(self) -> None:
        if self.spec.command == "update":
            self.put("command", torch.cat([self.heading - self.position[:, :1], 0.5 * self.heading], -1))

    def observe(self) -> torch.Tensor:
        spec, parts = self.spec, [self.position, self.velocity]
        if spec.command:
            parts.append(self.command)
        if spec.last_action:
            parts.append(self.last_action)
        if spec.filtered:
            parts.append(self.filtered)
        if spec.difference:
            parts.append(self.velocity - self.before)
        if spec.history:
            self.put("history", torch.cat([self.history[:, 1:], self.position[:, None]], 1))
            parts.append(self.history.flatten(1))
        observations = torch.cat(parts, -1)
        if spec.difference and self.fault is not Fault.WRITTEN_BY_STEP:
            self.put("before", self.velocity)
        return observations

    def process(self, actions: torch.Tensor) -> None:
        self.put("last_action", actions)
        if self.spec.filtered:
            self.put("filtered", 0.7 * self.filtered + 0.3 * actions)
        self.put("goal", 0.5 * (self.filtered if self.spec.filtered else actions))
        if self.growth:
            self.share.zero_()

    def apply(self) -> None:
        if self.spec.pd:
            self.share += self.growth
            self.put("torque", 4.0 * (self.share * self.goal - self.position) - 0.2 * self.velocity)

    # -- the simulator ------------------------------------------------------------------------------------------

    def move(self) -> None:
        force = self.torque if self.spec.pd else self.goal - self.position
        self.put("velocity", 0.9 * self.velocity + 0.05 * force + 0.05 * self.draw())
        self.put("position", self.position + 0.05 * self.velocity)

    def restart(self) -> None:
        self.put("position", 0.1 * self.draw())
        self.put("velocity", torch.zeros(1, 2))
        self.put("last_action", torch.zeros(1, 2))
        self.put("filtered", torch.full((1, 2), _START_OF_FILTER))
        self.put("before", torch.zeros(1, 2))
        self.put("history", torch.zeros_like(self.history))
        if self.growth:
            self.share.zero_()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process(actions)
        for number in range(self.spec.decimation):
            if self.fault is Fault.PYTHON_COUNTER:
                self.share = (number + 1) / self.spec.decimation
            self.apply()
            self.sub_step(number)
            self.move()
        self._steps += 1
        done = self._steps % self.spec.reset_every == 0
        if done:
            self.restart()
            self.reset_hook()
        self.put("heading", self.draw()[:, :1])
        if self.spec.command == "input":
            self.put("command", self.draw())
        observations = self.look()
        if self.fault is Fault.WRITTEN_BY_STEP:
            self.put("before", self.velocity)
        return observations, done

    def look(self) -> torch.Tensor:
        self.update()
        self.update_command()
        return self.observe()


class Layer:
    """Passes everything on."""

    def __init__(self, inner: Any):
        self.inner = inner

    def observe(self) -> torch.Tensor:
        return self.inner.observe()

    def process(self, actions: torch.Tensor) -> None:
        self.inner.process(actions)

    def apply(self) -> None:
        self.inner.apply()

    def look(self) -> torch.Tensor:
        return self.inner.look()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return self.inner.step(actions)


class Generated(ExportableEnvironment):
    """The adapter of a generated environment."""

    def __init__(self, spec: Spec, fault: Fault):
        super().__init__()
        self._spec = spec
        self.core = Core(spec, fault)
        self.top: Any = self.core
        for _ in range(spec.depth):
            self.top = Layer(self.top)
        self._observations: torch.Tensor | None = None
        if spec.command == "update":
            self.register_command_update(self.core.update_command)

    def compute_observations(self) -> torch.Tensor:
        return self.top.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.top.process(actions)

    def apply_actions(self) -> None:
        self.top.apply()

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, self.num_observations)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, Any]:
        return {}

    @property
    def decimation(self) -> int:
        return self._spec.decimation

    @property
    def num_observations(self) -> int:
        spec = self._spec
        parts = (True, True, spec.command, spec.last_action, spec.filtered, spec.difference)
        return 2 * sum(map(bool, parts)) + 2 * spec.history

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        if self._spec.hooked:
            self.core.update, self.core.reset_hook, self.core.sub_step = update, reset, evaluate_substep

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        observations, done = self.top.step(actions)
        self._observations = observations
        return observations, done

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(self.num_observations)]

    def observations_reset(self) -> torch.Tensor:
        if self._spec.cached and self._observations is not None:
            return self._observations
        return self.top.look()


class Resettable(Generated):
    """One that can be reset by the adapter."""

    def reset(self) -> None:
        self.core.restart()
        self.core.reset_hook()
        self._observations = self.top.look()


class Recurrent(ExportableActor):
    """A recurrent actor."""

    def __init__(self, kind: str, num_observations: int):
        super().__init__()
        torch.manual_seed(0)
        self.is_lstm = kind == "lstm"
        self.cell = (torch.nn.LSTMCell if self.is_lstm else torch.nn.GRUCell)(num_observations, 6)
        self.head = torch.nn.Linear(6, 2)
        self.state = [torch.zeros(1, 6) for _ in range(2 if self.is_lstm else 1)]

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if self.is_lstm:
            self.state = list(self.cell(obs, tuple(self.state)))
        else:
            self.state = [self.cell(obs, self.state[0])]
        result: torch.Tensor = self.head(self.state[0])
        return result

    def reset(self, dones: torch.Tensor) -> None:
        self.state = [torch.where(dones[:, None], 0.0, item) for item in self.state]

    def get_state(self) -> tuple[torch.Tensor, ...]:
        return tuple(self.state)


def make(spec: Spec, fault: Fault) -> tuple[Generated, ExportableActor]:
    """An environment after some steps, and its actor."""
    env = (Resettable if spec.resettable else Generated)(spec, fault)
    core, names = env.core, ["position", "velocity"]
    names += {"": [], "input": ["command"], "update": ["heading"]}[spec.command]
    if fault is Fault.FORGOTTEN_INPUT:
        names.pop(spec.choice % len(names))
    flags = {"last_action": spec.last_action, "filtered": spec.filtered, "before": spec.difference}
    flags |= {"history": spec.history > 0, "share": bool(core.growth)}
    memories = [name for name, is_there in flags.items() if is_there]
    is_stateful = spec.actor != "mlp"
    if fault is Fault.FORGOTTEN_MEMORY:
        candidates = [*(name for name in memories if name != _ALWAYS_RESTARTED), *(["actor"] if is_stateful else [])]
        forgotten = candidates[spec.choice % len(candidates)]
        memories = [name for name in memories if name != forgotten]
        is_stateful = is_stateful and forgotten != "actor"
    output = "torque" if spec.pd else "goal"
    env.context_manager().add_components(
        [
            *(Input(name, partial(getattr, core, name)) for name in names),
            *(Memory(name, partial(getattr, core, name)) for name in memories),
            Output(output, partial(getattr, core, output)),
        ]
    )
    count = env.num_observations
    actor = make_actor(count) if spec.actor == "mlp" else Recurrent(spec.actor, count)
    if is_stateful:
        add_actor_memory(env.context_manager(), actor.get_state)
    with torch.no_grad():
        observations = env.observations_reset()
        for _ in range(spec.warm):
            observations, _ = env.step(actor(observations))
    return env, actor


@dataclass(frozen=True)
class Outcome:
    """What the check, the export and the evaluation have said.

    Attributes:
        check: The findings of the check that are errors or warnings.
        export: The error of the export, or "".
        evaluation: What the evaluation has printed if it is False; or "".
    """

    check: tuple[str, ...]
    export: str
    evaluation: str

    @property
    def is_green(self) -> bool:
        return not self.check and not self.export and not self.evaluation


def judge(spec: Spec, fault: Fault, folder: Path) -> Outcome:
    """Check, export and evaluate an environment, each on its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExployWarning)
        return Outcome(checked(spec, fault), exported(spec, fault, folder), evaluated(spec, fault, folder))


def checked(spec: Spec, fault: Fault) -> tuple[str, ...]:
    """The findings of a check that are errors or warnings."""
    findings = check(*make(spec, fault)).findings
    return tuple(f"{item.kind}: {item.tensor}: {item.what}" for item in findings if item.severity != "info")


def exported(spec: Spec, fault: Fault, folder: Path) -> str:
    """The error of an export, which is not strict; "" if there is none."""
    env, actor = make(spec, fault)
    try:
        exploy.export(env, actor, folder / "policy.onnx", strict=False, initial_memory=_starts(spec, fault, env))
    except ExployError as error:
        return str(error)
    return ""


def evaluated(spec: Spec, fault: Fault, folder: Path) -> str:
    """What an evaluation prints if it is False; "" if it is True. The file is exported without any check."""
    env, actor = make(spec, fault)
    exploy.export(
        env,
        actor,
        folder / "policy.onnx",
        strict=False,
        verify_program=False,
        verify_environment=False,
        golden_trace=False,
        initial_memory=_starts(spec, fault, env),
    )
    session = SessionWrapper(folder, "policy.onnx", actor=actor, optimize=False)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        ok, _ = evaluate(
            env,
            env.context_manager(),
            session,
            EVALUATED_STEPS,
            verbose=False,
            pause_on_failure=False,
            reset_from_onnx_counter_steps=spec.reseed,
        )
    return "" if ok else printed.getvalue()


def _starts(spec: Spec, fault: Fault, env: Generated) -> Any:
    if fault is not Fault.WRONG_START:
        return "reset"
    memories = [item for item in env.context_manager().get_memory_components() if item.name != _ALWAYS_RESTARTED]
    chosen = memories[spec.choice % len(memories)]
    right = torch.full_like(chosen.value, _START_OF_FILTER if chosen.name == "filtered" else 0.0)
    right.view(-1)[0] += 1e-2
    return {chosen.name: right}


def _ignore(*_: object) -> None:
    pass
