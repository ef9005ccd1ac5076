"""The two checks of every exported file: against the captured program and against the live environment."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from exploy.capture.perturbation import Variation, around, as_found
from exploy.capture.program import ACTIONS, FrozenTensor, Program
from exploy.capture.recording import plain_torch
from exploy.capture.sensitivity import Sensitivity
from exploy.comparison import difference
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Input
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.observations import observation_arrays
from exploy.environment.stages import Stages
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ExployError, VerificationError, WeakerCheckWarning
from exploy.live.roots import live_objects
from exploy.live.snapshot import ProtectUnseen, Snapshot
from exploy.runtime.controller import Controller
from exploy.runtime.guards.guards import Guards
from exploy.runtime.model_file import ModelFile
from exploy.verify.frozen_watch import FrozenWatch
from exploy.verify.stepped import CannotRunError, Stepped, Values

TOLERANCE = 1e-5
_USUAL_REASON = (
    "no changed state was found; a common reason is a value that the environment caches until the simulated time "
    "changes: use a Connection to mark such caches as outdated"
)
_REASON_IN_THE_FILE = (
    "an operator that computes something different in ONNX, or that adds very many numbers in a different order; "
    "pass verify_program=False to export anyway"
)
_POLICY_STEPS = 8


def verify_against_program(program: Program, file: Stepped, decimation: int) -> int:
    """Run the file and the program on the same inputs over policy steps and sub-steps, and feed back memories.

    The inputs are the current values and random values around them. If the program cannot be computed with the
    random values, only the current values are used.

    Returns:
        The number of comparisons.

    Raises:
        VerificationError: If an output differs; the message names it.
    """

    def check(variations: Sequence[Variation]) -> int:
        compared = 0
        generator = torch.Generator().manual_seed(0)
        memories = {memory.input_name: to_numpy(memory.initial) for memory in program.memories}
        for policy_step, variation in enumerate(variations):
            for sub_step in range(min(decimation, 3)):
                inputs = {port.name: to_numpy(variation(port.example, generator)) for port in program.inputs}
                values = inputs | memories
                results = program.run({name: torch.from_numpy(value) for name, value in values.items()})
                expected = {name: to_numpy(value) for name, value in results[min(sub_step, 1)].items()}
                got = file.run(sub_step, values)
                step = _Step("the captured program", policy_step, sub_step)
                compared += _compare(expected, got, program, step, lambda: [_REASON_IN_THE_FILE])
                memories = {memory.input_name: got[memory.output_name] for memory in program.memories}
        return compared

    return _verify_at(check, (as_found, around, around), (as_found, as_found))


def verify_controller(data: bytes) -> None:
    """Run the self-test of the robot controller on the file, if the file has a trace.

    Raises:
        VerificationError: If an output differs from the trace.
        ContractError: If the controller cannot load the file.
    """
    controller = Controller(ModelFile.parse(data, may_run_code=True), guards=Guards.off())  # it was just made here
    trace = controller.contract.trace
    if trace is not None:
        controller.selftest()
        controller.step({name: values[0] for name, values in trace.input_arrays().items()})


def verify_against_environment(
    env: ExportableEnvironment,
    actor: ExportableActor,
    program: Program,
    file: Stepped,
) -> int:
    """Set the registered tensors of the live environment to other values, run its code, compare, restore.

    This finds errors that are not visible in the graph, such as a Python number that the code reads and changes, or
    unregistered state that affects outputs only some steps later. If the environment raises on values around the
    current ones, the current values are used, with a warning.

    Returns:
        The number of comparisons.

    Raises:
        VerificationError: If an output differs, or a frozen tensor that affects outputs has changed.
    """
    return compare_with_environment(env, actor, program, file)


def compare_with_environment(
    env: ExportableEnvironment,
    actor: ExportableActor,
    program: Program,
    stepped: Stepped,
    snapshot: Snapshot | None = None,
) -> int:
    """Compare a file or a program with the live environment; see verify_against_environment().

    Args:
        env: The environment.
        actor: The actor.
        program: The captured program.
        stepped: The file or program to compare with the environment.
        snapshot: A snapshot of the environment; taken here if None.

    Returns:
        The number of comparisons.

    Raises:
        VerificationError: If an output differs, or a frozen tensor that affects outputs has changed.
    """
    check = _EnvironmentCheck(env, actor, program, stepped, snapshot or Snapshot(live_objects(env, actor)))
    return _verify_at(check.run, (around,) * _POLICY_STEPS, (as_found,) * _POLICY_STEPS)


def _verify_at(
    check: Callable[[Sequence[Variation]], int], variations: Sequence[Variation], fallback: Sequence[Variation]
) -> int:
    """Check at some values; if the code under test raises, check at the fallback values, with a warning."""
    try:
        return check(variations)
    except ExployError:
        raise
    except Exception as reason:
        try:
            compared = check(fallback)
        except CannotRunError as error:
            raise VerificationError(f"The file cannot be run: {error}. Nothing was written.") from error
        warnings.warn(
            "The file was only checked at the current values of the inputs, because other values raised "
            f"{type(reason).__name__} ({reason}). Run evaluate() over many steps before you use the file.",
            WeakerCheckWarning,
            stacklevel=2,
        )
        return compared


class _EnvironmentCheck:
    """Runs the live environment and the file side by side, on a snapshot."""

    def __init__(
        self,
        env: ExportableEnvironment,
        actor: ExportableActor,
        program: Program,
        file: Stepped,
        snapshot: Snapshot,
    ):
        self._env = env
        self._manager = env.context_manager()
        self._actor = actor
        self._stages = Stages(env, actor)
        self._program = program
        self._sensitivity = Sensitivity(program)
        self._watch = FrozenWatch(env, actor, program.frozen_and_weights)
        self._file = file
        self._snapshot = snapshot

    def run(self, variations: Sequence[Variation]) -> int:
        self._compared = 0
        self._generator = torch.Generator().manual_seed(0)
        with self._snapshot, plain_torch(), ProtectUnseen(self._snapshot), self._snapshot.gradient_mode():
            components = self._manager.get_memory_components()
            self._set(components, variations[0])
            memories = {item.input_name: to_numpy(item.fetch()) for item in components}
            memories |= {m.input_name: to_numpy(m.initial) for m in self._program.memories if m.carried}
            for policy_step, variation in enumerate(variations):
                for sub_step in range(self._sub_steps(policy_step)):
                    memories = self._step(policy_step, sub_step, variation, memories)
            self._require_no_missing_memories()
        return self._compared

    def _sub_steps(self, policy_step: int) -> int:
        """Number of sub-steps to run: all in the first policy step, at most two in later ones."""
        return self._env.decimation if policy_step == 0 else min(self._env.decimation, 2)

    def _step(self, policy_step: int, sub_step: int, variation: Variation, memories: Values) -> Values:
        names = {port.name for port in self._program.inputs}
        inputs = [item for item in self._manager.get_input_components() if item.input_name in names]
        self._set(inputs, variation)
        got = self._file.run(sub_step, memories | {item.input_name: to_numpy(item.fetch()) for item in inputs})
        expected = self._live(sub_step)
        step = _Step("the live environment", policy_step, sub_step)
        self._compared += _compare(expected, got, self._program, step, self._suspects)
        return {memory.input_name: got[memory.output_name] for memory in self._program.memories}

    def _live(self, sub_step: int) -> Values:
        results: Values = {}
        if sub_step == 0:
            observations = self._stages.observe()
            results |= {
                name: value
                for name, value in observation_arrays(observations).items()
                if name in self._program.observation_outputs
            }
            actions = self._stages.act(observations)
            results[ACTIONS] = to_numpy(actions)
            self._stages.process(actions)
        else:
            self._stages.sub_step()
        return results | {item.output_name: item.value_numpy for item in self._manager.get_output_components()}

    def _set(self, components: Iterable[Input], variation: Variation) -> None:
        for component in components:
            tensor = component.fetch()
            tensor.copy_(variation(tensor, self._generator))

    def _suspects(self) -> list[str]:
        return [
            *(f"Python state that the pipeline changed: {item}" for item in self._snapshot.changed_python_state()),
            *(_missing_memory(frozen) for frozen in self._changed_frozen()),
        ]

    def _changed_frozen(self) -> list[FrozenTensor]:
        """Frozen tensors whose live value has changed and that an output depends on."""
        undeclared = self._watch.changes(lambda frozen: frozen.declared is None and frozen.live is None)
        return [item.frozen for item in undeclared if self._sensitivity.depends_on(item.frozen, item.elements)]

    def _require_no_missing_memories(self) -> None:
        """Raise if the pipeline reads and changes unregistered state, even if no output differs yet."""
        missing = self._changed_frozen()
        if missing:
            reasons = "".join(f"\n  - {_missing_memory(frozen)}" for frozen in missing)
            raise VerificationError(
                f"The pipeline changes tensors that are frozen in the file and that outputs depend on:{reasons}\n"
                "Nothing was written."
            )


@dataclass(frozen=True)
class _Step:
    reference: str
    policy_step: int
    sub_step: int


def _missing_memory(frozen: FrozenTensor) -> str:
    return (
        f"unregistered tensor that the pipeline changed: {frozen.name} (read at {frozen.where}); "
        "register it as a Memory"
    )


def _compare(expected: Values, got: Values, program: Program, step: _Step, suspects: Callable[[], list[str]]) -> int:
    comparable = {name: value for name, value in expected.items() if name not in program.random_outputs}
    for name, value in comparable.items():
        rtol = max(TOLERANCE, 10 * max(program.precision_of_ports, program.coarse_through_memories.get(name, 0.0)))
        found = difference(value, got[name], TOLERANCE, rtol, by_largest=True)
        if found is not None:
            reasons = "".join(f"\n  - {reason}" for reason in suspects()) or f"\n  - {_USUAL_REASON}"
            raise VerificationError(
                f"The file does not agree with {step.reference}: output {name!r}, {found} (policy step "
                f"{step.policy_step}, sub-step {step.sub_step}). Nothing was written. Possible reasons:{reasons}"
            )
    return len(comparable)
