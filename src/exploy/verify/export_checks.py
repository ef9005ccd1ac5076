"""The two checks that every export makes of its file: against the captured program and the live environment."""

from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime
import torch

from exploy.contract import STEP_COUNT, digest
from exploy.errors import ExployError, VerificationError
from exploy.exporter.capture.object_graph import resolve
from exploy.exporter.capture.pipeline import live_objects
from exploy.exporter.capture.program import ACTIONS, OBSERVATIONS, Program
from exploy.exporter.capture.snapshot import ProtectUnseen, Snapshot
from exploy.exporter.core.actor import ExportableActor
from exploy.exporter.core.components import to_numpy
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.verify.compare import difference
from exploy.verify.variation import vary

TOLERANCE = 1e-5
_POLICY_STEPS = 2
_SUB_STEPS = 3

Values = dict[str, np.ndarray]


class _File:
    """The file under test, as a function of the step count and named values."""

    def __init__(self, session: onnxruntime.InferenceSession):
        self._session = session
        self._inputs = [item.name for item in session.get_inputs()]
        self._outputs = [item.name for item in session.get_outputs()]

    def __call__(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        fed = {name: values[name] for name in self._inputs if name != STEP_COUNT}
        fed[STEP_COUNT] = np.array(step_count, dtype=np.int32)
        return dict(zip(self._outputs, self._session.run(None, fed), strict=True))


def check_against_program(program: Program, session: onnxruntime.InferenceSession, decimation: int) -> None:
    """Run file and program on the same random inputs over both paths, memories fed back.

    Raises:
        VerificationError: If an output differs; the message names it.
    """
    generator = torch.Generator().manual_seed(0)
    file = _File(session)
    memories = {memory.input_name: to_numpy(memory.initial) for memory in program.memories}
    for policy_step in range(_POLICY_STEPS):
        for sub_step in range(min(decimation, _SUB_STEPS)):
            scale = 0.0 if policy_step == sub_step == 0 else 1.0
            inputs = {port.name: to_numpy(vary(port.example, generator, scale)) for port in program.inputs}
            values = inputs | memories
            results = program.run({name: torch.from_numpy(value) for name, value in values.items()})
            expected = {name: to_numpy(value) for name, value in results[min(sub_step, 1)].items()}
            got = file(sub_step, values)
            _compare(expected, got, "the captured program", policy_step, sub_step, lambda: _random(program))
            memories = {memory.input_name: got[memory.output_name] for memory in program.memories}


def check_against_environment(
    env: ExportableEnvironment,
    actor: ExportableActor,
    program: Program,
    session: onnxruntime.InferenceSession,
) -> None:
    """Set the registered tensors of the live environment to other values, run its own Python, compare, restore.

    This sees what no graph shows, such as a Python number that the code reads and changes. If the environment raises
    on values around its own, its own are used.

    Raises:
        VerificationError: If an output differs; the message names it, and Python state that changed.
    """
    check = _EnvironmentCheck(env, actor, program, _File(session))
    try:
        check.run(scale=1.0)
    except ExployError:
        raise
    except Exception:
        check.run(scale=0.0)


class _EnvironmentCheck:
    def __init__(self, env: ExportableEnvironment, actor: ExportableActor, program: Program, file: _File):
        self._env = env
        self._manager = env.context_manager()
        self._actor = actor
        self._program = program
        self._file = file

    def run(self, scale: float) -> None:
        self._generator = torch.Generator().manual_seed(0)
        self._scale = scale
        self._snapshot = Snapshot(live_objects(self._env, self._actor))
        with self._snapshot, ProtectUnseen(self._snapshot), torch.inference_mode():
            self._vary(self._manager.get_memory_components())
            memories = {item.input_name: to_numpy(item.fetch()) for item in self._manager.get_memory_components()}
            memories |= {m.input_name: to_numpy(m.initial) for m in self._program.memories if m.carried}
            for policy_step in range(_POLICY_STEPS):
                for sub_step in range(min(self._env.decimation, _SUB_STEPS)):
                    memories = self._step(policy_step, sub_step, memories)

    def _step(self, policy_step: int, sub_step: int, memories: Values) -> Values:
        inputs = [item for item in self._manager.get_input_components() if item.input_name in self._input_names]
        self._vary(inputs)
        got = self._file(sub_step, memories | {item.input_name: to_numpy(item.fetch()) for item in inputs})
        expected = self._live(sub_step)
        _compare(expected, got, "the live environment", policy_step, sub_step, self._suspects)
        return {memory.input_name: got[memory.output_name] for memory in self._program.memories}

    @property
    def _input_names(self) -> set[str]:
        return {port.name for port in self._program.inputs}

    def _live(self, sub_step: int) -> Values:
        results: Values = {}
        self._manager.write_connections()
        if sub_step == 0:
            for update in self._env.command_updates:
                update()
            observations = self._env.compute_observations()
            results[OBSERVATIONS] = to_numpy(observations)
            actions = self._actor(observations)
            results[ACTIONS] = to_numpy(actions)
            self._env.process_actions(actions)
        self._env.apply_actions()
        return results | {item.output_name: item.value_numpy for item in self._manager.get_output_components()}

    def _vary(self, components: list) -> None:
        for component in components:
            tensor = component.fetch()
            tensor.copy_(vary(tensor, self._generator, self._scale))

    def _suspects(self) -> list[str]:
        changed = _random(self._program)
        changed += [f"Python state that the pipeline changed: {item}" for item in self._snapshot.changed_python_state()]
        for frozen in self._program.frozen:
            root, _, _ = frozen.name.partition(".")
            live = resolve({"env": self._env, "actor": self._actor}.get(root), frozen.name)
            if isinstance(live, torch.Tensor) and digest(to_numpy(live)) != digest(to_numpy(frozen.value)):
                changed.append(
                    f"unregistered tensor that the pipeline changed: {frozen.name} (read at {frozen.where}); "
                    "register it as a Memory"
                )
        return changed


def _random(program: Program) -> list[str]:
    return [
        f"random numbers are drawn: {operator}; switch off noise to export" for operator in program.random_operators
    ]


def _compare(
    expected: Values,
    got: Values,
    reference: str,
    policy_step: int,
    sub_step: int,
    suspects: Callable[[], list[str]],
) -> None:
    for name, value in expected.items():
        precision = 10 * np.finfo(value.dtype).eps if value.dtype.kind == "f" else 0.0
        found = difference(value, got[name], TOLERANCE, max(TOLERANCE, float(precision)), by_largest=True)
        if found is not None:
            reasons = "".join(f"\n  - {reason}" for reason in suspects()) or "\n  - no suspect found"
            raise VerificationError(
                f"The file does not agree with {reference}: output {name!r}, {found} (policy step {policy_step}, "
                f"sub-step {sub_step}). Nothing was written. Possible reasons:{reasons}"
            )
