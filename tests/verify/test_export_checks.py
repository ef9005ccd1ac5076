"""Every export checks its file twice before it takes its place, and names what is behind a difference."""

from pathlib import Path

import onnx_ir as ir
import pytest
import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from exploy.backends.onnx import backend
from exploy.backends.onnx.lowering import lower
from exploy.errors import RandomOperatorError, VerificationError, WeakerCheckWarning
from exploy.exporter.core.components import Input, Memory, Output
from tests.support.environments import TestEnvironment, export, make_actor


class Plain(TestEnvironment):
    num_observations = 3

    def __init__(self):
        super().__init__()
        self.value = torch.ones(1, 3)
        self.calls = 0
        self.context_manager().add_components(
            [Input("value", lambda: self.value), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return self.value * 2

    def move(self):
        self.value += self.noise(self.value)


def test_python_state_that_the_code_reads_is_an_error_that_names_it(tmp_path: Path):
    class Counting(Plain):
        def observe(self):
            self.calls += 1
            return self.value * self.calls

    with pytest.raises(VerificationError, match=r"output 'obs'.*\n.*env\.calls: 0 -> ") as caught:
        export(Counting(), make_actor(3), tmp_path)
    assert "live environment" in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert export(Counting(), make_actor(3), tmp_path, verify_environment=False)


def test_a_memory_that_was_not_registered_is_an_error_that_names_it(tmp_path: Path):
    class Forgetful(Plain):
        def __init__(self):
            super().__init__()
            self.total = torch.zeros(1, 3)

        def observe(self):
            self.total += self.value
            return self.total * 1.0

    with pytest.raises(VerificationError, match=r"env\.total .*register it as a Memory"):
        export(Forgetful(), make_actor(3), tmp_path)


def test_an_actor_with_a_state_that_was_not_registered_is_named(tmp_path: Path):
    class Remembering(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.state = (torch.zeros(1, 2),)

        def forward(self, obs):
            self.state = (0.5 * self.state[0] + obs[:, :2],)
            return self.state[0] * 1.0

    with pytest.raises(VerificationError, match=r"actor\.state\[0\] .*register it as a Memory"):
        export(Plain(), Remembering(), tmp_path)


def test_a_tensor_that_was_handed_to_other_code_by_address_is_refused_or_noticed(tmp_path: Path):
    class Outside(Plain):
        """Computes in numpy, on memory that it got hold of before the export."""

        def __init__(self):
            super().__init__()
            self.shared = self.value.numpy()

        def observe(self):
            return torch.from_numpy(self.shared * 2)

    with pytest.raises(VerificationError, match="output 'obs'"):
        export(Outside(), make_actor(3), tmp_path)


def test_noise_is_named_with_its_line(tmp_path: Path):
    class Noisy(Plain):
        def observe(self):
            return self.value + 0.1 * torch.randn(1, 3)

    with pytest.raises(
        RandomOperatorError, match=r"test_export_checks.py:\d+ .*random numbers are drawn \(aten.randn.*Disable"
    ):
        export(Noisy(), make_actor(3), tmp_path)


def test_a_file_that_computes_something_else_than_the_program_is_refused(tmp_path: Path, monkeypatch):
    def miscompiled(*arguments) -> ir.Model:
        model: ir.Model = lower(*arguments)
        next(node for node in model.graph if node.op_type == "Elu").op_type = "Celu"
        next(node for node in model.graph if node.op_type == "Mul").op_type = "Add"
        return model

    monkeypatch.setattr(backend, "lower", miscompiled)
    with pytest.raises(VerificationError, match=r"captured program: output '(obs|actions)'"):
        export(Plain(), make_actor(3), tmp_path)
    assert not list(tmp_path.iterdir())
    export(Plain(), make_actor(3), tmp_path, verify_program=False, verify_environment=False)
    assert (tmp_path / "policy.onnx").is_file()


def test_an_environment_that_refuses_other_values_is_checked_at_its_own(tmp_path: Path):
    refusals = tmp_path / "refusals"

    class Strict(Plain):
        def process_actions(self, actions):
            super().process_actions(actions)
            if get_proxy_mode() is None and (self.value != 1).any():
                refusals.touch(exist_ok=False)
                raise ValueError("out of range")

    with pytest.warns(WeakerCheckWarning, match="raised ValueError .out of range."):
        export(Strict(), make_actor(3), tmp_path)
    assert refusals.exists()


def test_integers_stay_valid_indices(tmp_path: Path):
    class Indexing(Plain):
        def __init__(self):
            super().__init__()
            self.index = torch.tensor([3])
            self.table = torch.arange(4.0)
            self.context_manager().add_component(Input("index", lambda: self.index))

        def observe(self):
            return self.value + self.table[self.index]

    session = export(Indexing(), make_actor(3), tmp_path)
    assert "index" in session.input_names


def test_a_memory_written_by_nobody_is_carried_along(tmp_path: Path):
    class Constant(Plain):
        def __init__(self):
            super().__init__()
            self.bias = torch.ones(1, 3)
            self.context_manager().add_component(Memory("bias", lambda: self.bias))

        def observe(self):
            return self.value + self.bias

    session = export(Constant(), make_actor(3), tmp_path)
    assert "memory.bias.out" in session.output_names


class DelayedByList(Plain):
    def __init__(self):
        super().__init__()
        self.queue = [torch.zeros(1, 2) for _ in range(3)]

    def process_actions(self, actions):
        self.queue.append(actions.clone())
        self.targets = self.queue.pop(0)


class DelayedByTensor(Plain):
    def __init__(self):
        super().__init__()
        self.queue = torch.zeros(9, 1, 2)

    def process_actions(self, actions):
        self.queue[1:] = self.queue[:-1].clone()
        self.queue[0] = actions
        self.targets = self.queue[8].clone()


class SlowlyGrowing(Plain):
    def __init__(self):
        super().__init__()
        self.queue = torch.zeros(1, 2)

    def process_actions(self, actions):
        self.queue += 0.001
        self.targets = actions + torch.relu(self.queue - 0.05)


@pytest.mark.parametrize("kind", [DelayedByList, DelayedByTensor, SlowlyGrowing])
def test_state_that_shows_only_steps_later_is_refused_by_name(kind, tmp_path: Path):
    with pytest.raises(VerificationError, match=r"env\.queue.*register it as a Memory"):
        export(kind(), make_actor(3), tmp_path)


def test_a_counter_that_matters_at_the_last_sub_step_only_is_noticed(tmp_path: Path):
    class LastSubStep(Plain):
        def __init__(self):
            super().__init__()
            self._decimation = 5

        def process_actions(self, actions):
            super().process_actions(actions)
            self.calls = 0

        def apply_actions(self):
            self.calls += 1
            self.targets = self.targets * (10.0 if self.calls == 5 else 1.0)

    with pytest.raises(VerificationError, match=r"sub-step 4.*\n.*env\.calls"):
        export(LastSubStep(), make_actor(3), tmp_path)


def test_targets_that_are_only_partly_written_are_no_missing_memory(tmp_path: Path):
    class PartlyWritten(Plain):
        """Writes two of three joints, in another order, as action managers do; the third keeps its target."""

        def __init__(self):
            super().__init__()
            self.joint_targets = torch.tensor([[0.1, 0.2, 0.3]])
            self.context_manager().add_component(Output("joint_targets", lambda: self.joint_targets))

        def apply_actions(self):
            self.joint_targets[:, [1, 0]] = self.targets

    session = export(PartlyWritten(), make_actor(3), tmp_path)
    assert session.contract is not None
    assert [item.name for item in session.contract.frozen] == ["env.joint_targets"]


def test_an_index_that_can_have_one_value_only_is_checked_at_that(tmp_path: Path):
    class OneRow(Plain):
        def __init__(self):
            super().__init__()
            self.row = torch.tensor([0])
            self.table = torch.ones(1, 3)
            self.context_manager().add_component(Input("row", lambda: self.row))

        def observe(self):
            return self.value + self.table[self.row]

    with pytest.warns(WeakerCheckWarning, match="only checked at the current values of the inputs"):
        export(OneRow(), make_actor(3), tmp_path)
