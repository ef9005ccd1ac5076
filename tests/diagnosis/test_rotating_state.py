"""Tensors that the pipeline moves from place to place: one finding, lines that can be pasted, and inferred memories."""

import collections
from pathlib import Path

import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import InferredMemoryWarning
from tests.diagnosis import test_faults
from tests.support.checking import check
from tests.support.environments import assert_agrees, make_actor
from tests.support.pasting import paste


class Robot(test_faults.Robot):
    """A robot that restarts its lists itself."""

    def restart_memories(self):
        self.setup()


class ActionLag(Robot):
    """Actions arrive ten steps late, as in domain randomisation of legged_gym."""

    def setup(self):
        self.lag = [torch.zeros(1, 2) for _ in range(10)]

    def process_actions(self, actions):
        self.lag = self.lag[1:] + [actions]  # noqa: RUF005
        self.targets[:] = self.lag[0]


class ObservationHistory(Robot):
    """All frames are read, from a list that is popped."""

    def setup(self):
        self.frames = [torch.zeros(1, 4) for _ in range(3)]

    def observe(self):
        self.frames.pop(0)
        self.frames.append(super().observe())
        return torch.stack(self.frames).sum(0)


class FrameStack(Robot):
    """A deque as gymnasium's FrameStackObservation fills it: one frame in all places."""

    def setup(self):
        self.frames = collections.deque([torch.zeros(1, 4)] * 30, maxlen=30)

    def observe(self):
        self.frames.append(super().observe())
        return self.frames[0] + self.frames[-1]


class NamedFrames(Robot):
    """The same without a list: attributes that hand tensors on."""

    def setup(self):
        self.newest, self.middle, self.oldest = (torch.zeros(1, 2) for _ in range(3))

    def process_actions(self, actions):
        self.oldest, self.middle, self.newest = self.middle, self.newest, actions
        self.targets[:] = self.oldest


class RefilledList(Robot):
    """A list that is made anew at each step."""

    def setup(self):
        self.parts = [torch.zeros(1, 2) for _ in range(3)]

    def process_actions(self, actions):
        self.parts = [actions * 1.0, actions * 2.0, actions * 3.0]
        self.targets[:] = self.parts[0] + self.parts[2]


class Gains(Robot):
    """A list with one constant in several places, next to state."""

    def setup(self):
        self.gains = [torch.ones(1, 2)] * 3
        self.applied: list[torch.Tensor] = []

    def process_actions(self, actions):
        self.applied = [actions * gain for gain in self.gains]
        self.targets[:] = self.applied[1]


ROTATING = {
    "lag": (ActionLag, "env.lag", [f"lag_{index}" for index in range(1, 10)]),
    "history": (ObservationHistory, "env.frames", ["frames_1", "frames_2"]),
    "shared frames": (FrameStack, "env.frames", [f"frames_{index}" for index in range(30)]),
    "attributes": (NamedFrames, "env.middle", ["middle", "newest"]),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", [name for name in ROTATING if name != "shared frames"])
def test_tensors_that_move_are_one_finding_whose_lines_mend_it(name, tmp_path: Path):
    kind, tensor, memories = ROTATING[name]
    env, actor = kind(), make_actor(4)
    diagnosis = check(env, actor)
    (finding,) = diagnosis.errors
    assert (finding.kind, finding.tensor) == (FindingKind.MISSING_MEMORY, tensor), diagnosis
    paste(diagnosis, env, actor)
    assert sorted(item.name for item in env.context_manager().get_memory_components()) == sorted(memories)
    assert check(env, actor).ok
    assert_agrees(env, actor, tmp_path, steps=40)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ROTATING)
def test_tensors_that_move_are_inferred_however_many_they_are(name, tmp_path: Path):
    kind, _, memories = ROTATING[name]
    env = kind()
    with pytest.warns(InferredMemoryWarning):
        assert_agrees(env, make_actor(4), tmp_path, steps=40, infer_memory=True)
    assert sorted(item.name for item in env.context_manager().get_memory_components()) == sorted(memories)


def test_a_tensor_in_several_places_is_told_and_no_code_is_shown():
    (finding,) = check(FrameStack(), make_actor(4)).errors
    assert finding.tensor == "env.frames" and "several places" in finding.what
    assert finding.suggestion.startswith("# where env.frames is filled, give each place a tensor of its own")


@pytest.mark.parametrize("kind", [RefilledList, Gains])
def test_lists_that_only_look_like_it_are_not_accused(kind):
    diagnosis = check(kind(), make_actor(4))
    assert diagnosis.ok and not diagnosis.suggestions, diagnosis


def test_what_a_failed_export_separated_is_joined_again(tmp_path: Path):
    env = FrameStack()
    env.metadata = lambda: {"bad": object()}  # type: ignore[method-assign]
    before = list(env.frames)
    with pytest.raises(exploy.errors.MetadataError):
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False, infer_memory=True)
    assert all(one is two for one, two in zip(env.frames, before, strict=True))
    assert not env.context_manager().get_memory_components()
