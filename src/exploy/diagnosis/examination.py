"""The data that all parts of a check share."""

import re
from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np
import torch

from exploy.capture.program import FrozenTensor, Program
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.evidence.long_run import LongRun
from exploy.diagnosis.evidence.pipeline_alone import OwnChanges
from exploy.diagnosis.evidence.probing import Probe
from exploy.diagnosis.evidence.rare_changes import SeenResets
from exploy.diagnosis.evidence.roles import Role
from exploy.diagnosis.evidence.stepping import Evidence
from exploy.diagnosis.finding import Finding
from exploy.diagnosis.reset_starts import MemoryStarts
from exploy.diagnosis.suggestion import component_line, name_from_attr_path
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.geometry import Geometry
from exploy.live.module_globals import ModuleGlobals
from exploy.live.object_graph import key_types


@dataclass
class Examination:
    """An environment with its captured program and all evidence about it.

    Attributes:
        experiments: Runs trials on the environment and its actor.
        captured: The captured program; None if it could not be captured.
        starts: Where the start values of memories come from.
        allow_random: Whether the actor may draw random numbers.
        own_changes: What the pipeline changes while the simulator is not stepped.
        evidence: What was observed while the environment was stepped.
        resets: The resets that the check made happen, if any.
        long_run: A long run of the pipeline alone, if it was made.
        roles: The roles of frozen tensors, by name.
        probes: Python values at the time when possible caches were written.
        observation_names: Names of the elements of observations, by port; empty if unknown.
        python_before: Python values at the capture, by path.
        difference: How program and environment differ while the simulator is not stepped; None if they agree.
        findings: The findings so far.
        otherwise: What a finding says if its suggested code does not mend it, by that code.
        suggested: Names of components that were suggested.
    """

    experiments: Experiments
    captured: Program | None
    allow_random: bool = False
    starts: MemoryStarts = field(default_factory=MemoryStarts)
    own_changes: OwnChanges = field(default_factory=OwnChanges)
    evidence: Evidence = field(default_factory=Evidence)
    resets: SeenResets = field(default_factory=SeenResets)
    long_run: LongRun = field(default_factory=LongRun)
    roles: dict[str, Role] = field(default_factory=dict)
    probes: list[Probe] = field(default_factory=list)
    observation_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    python_before: dict[str, object] = field(default_factory=dict)
    difference: str | None = None
    findings: list[Finding] = field(default_factory=list)
    otherwise: dict[str, str] = field(default_factory=dict)
    suggested: set[str] = field(default_factory=set)
    _refreshes: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> ExportableEnvironment:
        """The environment."""
        return self.experiments.env

    @property
    def program(self) -> Program:
        """The captured program; may only be read if there is one."""
        assert self.captured is not None
        return self.captured

    @property
    def suspects(self) -> list[FrozenTensor]:
        """Frozen tensors that results depend on and that code outside of the pipeline changes."""
        stored = self.program.frozen_and_weights
        return [item for item in stored if self.roles.get(item.name) is Role.INPUT_OR_CACHE]

    @property
    def steps_watched(self) -> int:
        """Number of policy steps that were looked at for changes."""
        return self.evidence.steps + self.resets.steps

    @property
    def not_compared(self) -> dict[str, str]:
        """Outputs without random numbers that no step of the environment has shown, and why not."""
        if self.evidence.error is not None or not self.evidence.tally.compared:
            return {}
        missing = self.evidence.tally.missing
        return {name: why for name, why in missing.items() if name not in self.program.random_outputs}

    def imports(self, attr_path: str) -> list[str]:
        """The lines that a path needs in front: imports of its module, and of enumerations among its keys.

        A module that is registered and that nothing else leads to is taken from the context manager.
        """
        roots = self.experiments.roots
        module = re.match(r"module_(\d+)\b", attr_path)
        return [
            *([f"{module[0]} = env.context_manager().modules[{module[1]}]"] if module else ()),
            *(value.import_line(root) for root, value in roots.items() if _starts_at(value, attr_path, root)),
            *(
                f"from {kind.__module__} import {kind.__qualname__.partition('.')[0]}"
                for kind in key_types(roots, attr_path)
            ),
        ]

    def suggest(self, kind: str, attr_path: str, name: str | None = None, *, with_imports: bool = True) -> str:
        """The line that registers the tensor at a path, under the given name or else an unused one.

        Imports that the path needs come before it.
        """
        manager = self.experiments.env.context_manager()
        components = [*manager.get_input_components(), *manager.get_output_components(), *manager.get_constants()]
        taken = {item.name for item in components} | self.suggested
        chosen = name or name_from_attr_path(attr_path, taken, kind)
        self.suggested.add(chosen)
        is_array = isinstance(self.experiments.resolve(attr_path), np.ndarray)
        line = component_line(kind, chosen, f"torch.from_numpy({attr_path})" if is_array else attr_path)
        return "\n".join([*(self.imports(attr_path) if with_imports else ()), line])

    def refresh_name(self, attr_path: str) -> str:
        """An unused name for the Connection that sets the value at a path; always the same for one path."""
        if attr_path not in self._refreshes:
            known = [item.name for item in self.env.context_manager().get_connection_components()]
            taken = {name.removeprefix("refresh_") for name in (*known, *self._refreshes.values())}
            self._refreshes[attr_path] = f"refresh_{name_from_attr_path(attr_path, taken)}"
        return self._refreshes[attr_path]

    def or_else(self, code: str, otherwise: str) -> str:
        """Return code to suggest, and note the comment that is shown if it does not mend the finding."""
        self.otherwise[code] = otherwise
        return code

    def suggest_memory(self, frozen: FrozenTensor, experiments: Experiments) -> str:
        """The line that registers a frozen tensor as a Memory, with add_actor_memory() if it is actor state."""
        live = experiments.live(frozen)
        states = experiments.actor.get_state() or ()
        if isinstance(live, torch.Tensor) and any(Geometry.of(live).overlaps(Geometry.of(state)) for state in states):
            return "add_actor_memory(env.context_manager(), actor.get_state)"
        return self.suggest("Memory", frozen.name)


def _starts_at(value: object, attr_path: str, root: str) -> TypeGuard[ModuleGlobals]:
    return isinstance(value, ModuleGlobals) and attr_path.startswith(f"{root}.")
