"""A skrl model with its preprocessors, as a pure step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.policy.copies import own_copy
from exploy.policy.normalization import require_matching_size
from exploy.policy.policy import BATCH, Policy, PolicyState, Tensors
from exploy.policy.recurrent import named_states
from exploy.trainers.common.attributes import has
from exploy.trainers.common.deterministic_sampling import DeterministicSampling
from exploy.trainers.common.libraries import library
from exploy.trainers.common.trial import failure_of, trial_inputs
from exploy.trainers.skrl.spaces import Leaf, leaves

LIBRARY = "skrl"
POLICY = "policy"
Q_NETWORK = "q_network"

Preprocessor = Callable[[torch.Tensor], torch.Tensor]
Bounds = tuple[torch.Tensor | None, torch.Tensor | None]
_SAMPLED = {"GaussianMixin", "MultivariateGaussianMixin", "CategoricalMixin", "MultiCategoricalMixin"}


@dataclass
class Parts:
    """The parts of a skrl policy, before they are copied."""

    model: Any
    role: str
    observation_space: Any
    preprocessor: Any = None
    state_preprocessor: Any = None
    bounds: Bounds = (None, None)


class SkrlPolicy(Policy):
    """A skrl model with its preprocessors."""

    def __init__(self, parts: Parts, *, reads_states: bool):
        observed = list(leaves(parts.observation_space, "obs"))
        stated = list(leaves(parts.model.state_space, "states")) if reads_states else []
        read = [*observed, *stated]
        super().__init__([leaf.port for leaf in read], _states_of(parts.model), libraries=(LIBRARY,))
        self._dtypes = [leaf.dtype for leaf in read]
        self._observed = len(observed)
        self._role = parts.role
        self._model = parts.model
        self._preprocess = _validated(parts.preprocessor, observed)
        self._preprocess_states = _validated(parts.state_preprocessor, stated) if stated else None
        self._low, self._high = parts.bounds
        self._flatten = library("skrl.utils.spaces.torch", "skrl").flatten_tensorized_space

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute actions as the agent does, with the most likely value of each distribution."""
        values: dict[str, Any] = self._model_inputs(inputs)
        if states:
            values["rnn"] = list(states)
        before = dict(vars(self._model))
        with DeterministicSampling():
            result = self._model.act(values, role=self._role)
        vars(self._model).update(before)
        actions, outputs = result[0], result[-1] or {}
        if self._role == Q_NETWORK:
            actions = torch.argmax(actions, dim=1, keepdim=True)
        else:
            actions = self._bounded(outputs.get("mean_actions", actions))
        return (actions,), tuple(outputs["rnn"]) if states else ()

    def _model_inputs(self, inputs: Tensors) -> dict[str, Any]:
        leaves = [value.to(dtype) for value, dtype in zip(inputs, self._dtypes, strict=True)]
        observations = self._preprocessed(self._preprocess, leaves[: self._observed])
        if not knows_states(self._model):
            return {"states": observations}
        stated = leaves[self._observed :]
        return {
            "observations": observations,
            "states": self._preprocessed(self._preprocess_states, stated) if stated else None,
        }

    def _preprocessed(self, preprocess: Preprocessor | None, leaves: Sequence[torch.Tensor]) -> torch.Tensor:
        flat: torch.Tensor = torch.cat([self._flatten(value) for value in leaves], dim=-1)
        return flat if preprocess is None else preprocess(flat)

    def _bounded(self, actions: torch.Tensor) -> torch.Tensor:
        if self._low is None and self._high is None:
            return actions
        return torch.clamp(actions, min=self._low, max=self._high)


def policy_of(parts: Parts) -> Policy:
    """A policy from copies of the parts. It reads states only if its model does."""
    require_supported(parts.model, parts.role)
    model = own_copy(parts.model)
    model.device = torch.device("cpu")
    own = Parts(
        model=model,
        role=parts.role,
        observation_space=parts.observation_space,
        preprocessor=_own_preprocessor(parts.preprocessor),
        state_preprocessor=_own_preprocessor(parts.state_preprocessor),
        bounds=own_copy(parts.bounds),
    )
    policy = SkrlPolicy(own, reads_states=False)
    failure = failure_of(policy)
    if getattr(model, "state_space", None) is not None:
        with_states = SkrlPolicy(own, reads_states=True)
        failure_with_states = failure_of(with_states)
        if failure is not None or (failure_with_states is None and _depends_on_states(with_states)):
            policy, failure = with_states, failure_with_states
    if failure is not None:
        raise PolicyError(
            f"{type(parts.model).__name__}.act() fails on observations from its space with role={parts.role!r}: "
            f"{type(failure).__name__}: {failure}"
        ) from failure
    return policy.eval()


def _depends_on_states(policy: SkrlPolicy) -> bool:
    """Whether different states give different actions."""
    inputs, memories = trial_inputs(policy)
    observed = policy._observed
    others = (*inputs[:observed], *(value + 1 for value in inputs[observed:]))
    with torch.no_grad():
        one, other = (policy.step(values, memories)[0][0] for values in (inputs, others))
    return not torch.equal(one, other)


def require_supported(model: Any, role: str) -> None:
    """Raise if a model cannot be exported, or not in that role.

    Raises:
        PolicyError: With what was expected and what was given.
    """
    name = type(model).__name__
    if not isinstance(model, torch.nn.Module) or not has(model, "act", "compute"):
        raise PolicyError(
            f"A {type(model).__module__}.{name} is not a PyTorch model of skrl: it must be a torch.nn.Module "
            "with `act` and `compute`."
        )
    mixins = {base.__name__ for base in type(model).__mro__}
    if "TabularMixin" in mixins:
        raise PolicyError(f"{name} is a tabular model, which cannot be exported. Export a model with a network.")
    if role not in (POLICY, Q_NETWORK):
        raise PolicyError(f"role must be {POLICY!r} or {Q_NETWORK!r}, got {role!r}.")
    if role == POLICY and mixins & {"DeterministicMixin"} and not mixins & _SAMPLED and _is_discrete(model):
        raise PolicyError(
            f"{name} returns a value for each action of {model.action_space}. If it is the Q-network of its "
            f"agent, give role={Q_NETWORK!r}."
        )


def _is_discrete(model: Any) -> bool:
    return hasattr(getattr(model, "action_space", None), "n")


def knows_states(model: Any) -> bool:
    """Whether a model separates observations and states, as since skrl 2.0. Before, observations are `states`."""
    return hasattr(model, "state_space")


def _own_preprocessor(preprocessor: Any) -> Any:
    if preprocessor is None or getattr(preprocessor, "__name__", "") == "_empty_preprocessor":
        return None
    if not callable(preprocessor):
        raise PolicyError(f"A skrl preprocessor must be callable, got a {type(preprocessor).__name__}.")
    return own_copy(preprocessor) if isinstance(preprocessor, torch.nn.Module) else preprocessor


def _validated(preprocessor: Any, leaves: Sequence["Leaf"]) -> Any:
    mean = getattr(preprocessor, "running_mean", None)
    if isinstance(mean, torch.Tensor):
        width = sum(leaf.width for leaf in leaves)
        require_matching_size(type(preprocessor).__name__, tuple(mean.shape), leaves[0].port.name, (BATCH, width))
    return preprocessor


def _states_of(model: Any) -> list[PolicyState]:
    is_lstm = any(isinstance(module, torch.nn.LSTM) for module in model.modules())
    return named_states([(size[0], size[2]) for size in _specified_sizes(model)], is_lstm=is_lstm)


def _specified_sizes(model: Any) -> list[tuple[int, ...]]:
    specification = model.get_specification() if hasattr(model, "get_specification") else {}
    sizes = specification.get("rnn", {}).get("sizes", [])
    if any(len(size) != 3 for size in sizes):
        raise PolicyError(
            f"{type(model).__name__}.get_specification() must return sizes of (layers, environments, features) for "
            f"each recurrent state, got {sizes}."
        )
    return [tuple(map(int, size)) for size in sizes]
