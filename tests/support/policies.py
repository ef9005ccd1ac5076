"""Compares exported policies with what their training libraries compute themselves."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from exploy.runtime import Controller

Observations = Mapping[str, np.ndarray]


def assert_agrees(
    path: Path,
    infer: Callable[[Observations], Any],
    observations: Iterable[Observations],
    *,
    resets: Iterable[int] = (),
    reset: Callable[[], Any] = lambda: None,
) -> int:
    """Run a file and a library's own deterministic inference on the same raw observations; the number of steps.

    Args:
        path: The file.
        infer: Gives the library's actions, with a batch of one.
        observations: What both get, step by step, by port.
        resets: Steps before which an episode starts anew.
        reset: Tells the library of it.
    """
    controller, resets = Controller.load(path), set(resets)
    pairs = []
    for step, values in enumerate(observations):
        if step in resets:
            controller.reset()
            reset()
        got, expected = controller.step(values)["actions"], np.asarray(infer(values)).copy()
        assert got.shape == expected.shape, (got.shape, expected.shape)
        pairs.append((got, expected))
    assert all(step < len(pairs) for step in resets), "every reset must be within the run"
    got, expected = (np.stack(side) for side in zip(*pairs, strict=True))
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, expected)
    return len(pairs)


def random_observations(
    shapes: Mapping[str, tuple[int, ...]], count: int = 1_000, *, seed: int = 0, scale: float = 2.0
) -> Iterable[dict[str, np.ndarray]]:
    """Raw observations for one robot: floats of some scale."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield {name: (scale * rng.standard_normal((1, *shape))).astype(np.float32) for name, shape in shapes.items()}
