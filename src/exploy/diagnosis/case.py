"""What every part of a check works on."""

from dataclasses import dataclass, field

import numpy as np

from exploy.diagnosis.experiments import Experiments
from exploy.diagnosis.pipeline_alone import OwnChanges
from exploy.diagnosis.stepping import Evidence
from exploy.diagnosis.suggestion import component_line, name_from_path
from exploy.exporter.capture.program import Program


@dataclass
class Case:
    """An environment with its captured program, what the program's stages change, and what was seen in the steps."""

    experiments: Experiments
    program: Program
    own_changes: OwnChanges
    evidence: Evidence
    allow_random: bool = False
    _suggested: set[str] = field(default_factory=set)

    def suggest(self, kind: str, path: str, name: str | None = None) -> str:
        """The line that registers what a path leads to, under a name that is still free unless one is given."""
        manager = self.experiments.env.context_manager()
        components = [*manager.get_input_components(), *manager.get_output_components(), *manager.get_constants()]
        taken = {item.name for item in components} | self._suggested
        chosen = name or name_from_path(path, taken, kind)
        self._suggested.add(chosen)
        is_array = isinstance(self.experiments.resolve(path), np.ndarray)
        return component_line(kind, chosen, f"torch.from_numpy({path})" if is_array else path)
