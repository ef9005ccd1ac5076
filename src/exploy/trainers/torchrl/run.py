"""Passes through a chain of stages, with clear errors."""

from collections.abc import Mapping
from typing import Any

import torch

from exploy.capture.noise import without_noise
from exploy.errors import ExployError, PolicyError
from exploy.policy.policy import Policy, Tensors
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.chain import Chain
from exploy.trainers.torchrl.exploration import distributions_in, refuse_unfaithful
from exploy.trainers.torchrl.forms import ExportableForms
from exploy.trainers.torchrl.keys import EXTRA, Key, listed, shown
from exploy.trainers.torchrl.layout import Layout


class Run:
    """Passes through a chain.

    Args:
        chain: The stages.
        layout: What tensordicts look like.
        exploration: The exploration type that is set meanwhile.
    """

    def __init__(self, chain: Chain, layout: Layout, exploration: Any):
        self._chain, self._layout, self._exploration = chain, layout, exploration
        self.stages = torch.nn.ModuleList(chain.stages)
        self._set_exploration = library("torchrl.envs.utils", EXTRA).set_exploration_type
        self._set_recurrent = library("torchrl.modules", EXTRA).set_recurrent_mode

    def __call__(self, values: Mapping[Key, torch.Tensor]) -> tuple[Tensors, Tensors]:
        """The outputs and the next memories."""
        result = self.tensordict(values)
        outputs = tuple(result.get(key) for key in self._chain.outputs)
        return outputs, tuple(result.get(memory.written) for memory in self._chain.memories)

    def tensordict(self, values: Mapping[Key, torch.Tensor]) -> Any:
        """All that the stages write."""
        tensordict = self._layout.tensordict(values)
        with self._set_exploration(self._exploration), self._set_recurrent(False), ExportableForms():
            for stage in self._chain.stages:
                tensordict = stage(tensordict)
        return tensordict

    def on_example(self, values: Mapping[Key, torch.Tensor]) -> Any:
        """All that the stages write for an example, from a known state of the random generators.

        Raises:
            PolicyError: If the policy fails, or an output or a memory is not written.
        """
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), without_noise():
                torch.manual_seed(0)
                result = self.tensordict(values)
        except ExployError:
            raise
        except Exception as error:
            raise PolicyError(
                f"The policy fails on the example under exploration {self._exploration.name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        for key in (*self._chain.outputs, *(memory.written for memory in self._chain.memories)):
            if not isinstance(result.get(key, None), torch.Tensor):
                raise PolicyError(
                    f"Neither the policy nor its transforms write {shown(key)} as a tensor; they give "
                    f"{listed(_leaves(result))}."
                )
        return result

    def refuse_unfaithful(self, policy: Policy, inputs: Tensors) -> None:
        """Refuse a policy that gives no function of its inputs where it should, or that changes while it runs.

        Raises:
            PolicyError: With the stages that change, or with what to explore by instead.
        """
        robots = self._layout.batch_size[0] if self._layout.batch_dims else 1
        states = tuple(state.initial(robots) for state in policy.states)
        others = tuple(value + 0.5 if value.dtype.is_floating_point else value for value in inputs)
        before = self._kept_by_stages()
        results = []
        with torch.no_grad(), torch.random.fork_rng(devices=[]), without_noise():
            for seed, values in ((0, inputs), (1, inputs), (2, others)):
                torch.manual_seed(seed)
                results.append(policy.step(values, states)[0][0])
        after = self._kept_by_stages()
        changed = [name for name, value in after.items() if not _is_same(value, before.get(name))]
        if changed:
            labels = sorted({self._chain.stages[int(name.split(".")[0])].label for name in changed})
            raise PolicyError(
                f"{', '.join(labels)} changes by itself at each step ({', '.join(changed)}), which a file cannot. "
                "Freeze it, or write what it remembers to the tensordict and name it in memories=."
            )
        refuse_unfaithful((results[0], results[1]), self._exploration, distributions_in(self.stages))

    def _kept_by_stages(self) -> dict[str, Any]:
        """Tensors and numbers of all modules, whether they are registered or not."""
        kept: dict[str, Any] = dict(self.stages.named_parameters()) | dict(self.stages.named_buffers())
        for path, module in self.stages.named_modules():
            kept |= {f"{path}.{name}": value for name, value in vars(module).items() if _is_data(value)}
        return {
            name: value.detach().clone() if isinstance(value, torch.Tensor) else value
            for name, value in kept.items()
            if not (isinstance(value, torch.Tensor) and value.is_meta)
        }


def _is_data(value: Any) -> bool:
    return isinstance(value, torch.Tensor | int | float)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    return type(one) is type(other) and bool(one == other or one != one)


def _leaves(tensordict: Any) -> list[Key]:
    return [(key,) if isinstance(key, str) else key for key in tensordict.keys(True, True)]
