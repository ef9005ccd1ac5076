"""Operators whose usual ONNX form is wrong for edge cases return torch's values in the file."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from exploy.exporter.core.components import Input, Output
from tests.support.environments import TestEnvironment, export, make_actor

CORNERS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-20, -1e-20, 50.0, -50.0, math.inf, -math.inf]


class Computing(TestEnvironment):
    num_observations = 4

    def __init__(self, function):
        super().__init__(decimation=1)
        self.function = function
        self.first, self.second = torch.ones(1, 4), torch.full((1, 4), -2.0)
        for name in ("first", "second"):
            self.context_manager().add_component(Input(name, lambda name=name: getattr(self, name)))  # type: ignore[misc]
        self.context_manager().add_component(Output("targets", lambda: self.targets))

    def observe(self):
        return self.function(self.first, self.second)

    def move(self):
        pass


@pytest.mark.parametrize(
    "function",
    [torch.atan2, lambda y, x: torch.nn.functional.logsigmoid(y * 1.5) + 0 * x.clamp(-1, 1)],
    ids=["atan2", "logsigmoid"],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_corners(function, tmp_path: Path):
    session = export(Computing(function), make_actor(4), tmp_path)
    pairs = [(y, x) for y in CORNERS for x in CORNERS if not (math.isinf(x) and math.isinf(y))]
    for start in range(0, len(pairs), 4):
        rows = (pairs[start : start + 4] + [(1.0, 1.0)] * 4)[:4]
        y, x = (np.array([column], np.float32) for column in zip(*rows, strict=True))
        values = {"first": y, "second": x, "ctx.step_count": 0}
        session(**values, **{name: np.zeros((1, 2), np.float32) for name in session.input_names if "memory" in name})
        expected = function(torch.from_numpy(y), torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(session.get_output_value("obs"), expected, rtol=1e-6, atol=1e-6)
