"""The installed TorchRL has everything that `torchrl_internals.py` relies on. A failure says what to edit."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest
import torch
from torch.overrides import TorchFunctionMode, resolve_name

pytest.importorskip("torchrl")

import tensordict.nn.common
import torchrl
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl import envs, modules
from torchrl.data import Bounded, Composite, OneHot, Unbounded
from torchrl.envs import TransformedEnv

from exploy.trainers.torchrl import torchrl_internals as internals
from exploy.trainers.torchrl.transforms import STAGES_BY_NAME
from tests.trainers.torchrl_support import ScriptedEnv

FOLDER = Path(internals.__file__).parent
INSTALLED = Path(torchrl.__file__).parent
MOVED = f"torchrl {torchrl.__version__} has changed"


# ---- functions in the source ----


@pytest.mark.parametrize("call", internals.ANSWERED_CALLS, ids=lambda call: f"{call.file}:{call.function}")
def test_the_source_has_each_function_whose_calls_are_answered(call: internals.AnsweredCall) -> None:
    path = INSTALLED / call.file
    name = call.function.rpartition(".")[2]
    advice = (
        f"Find it by `grep -rn 'def {name}' {INSTALLED}` and edit the row of ANSWERED_CALLS in torchrl_internals.py; "
        "delete the row if TorchRL no longer has the function."
    )
    assert path.is_file(), f"{MOVED}: it has no file {call.file}. {advice}"
    found = list(codes_in(compile(path.read_text(), str(path), "exec")))
    assert any(call.is_made_by(code) for code in found), f"{MOVED}: {call.file} has no {call.function}. {advice}"


@pytest.mark.parametrize(
    "call", internals.ANSWERED_CALLS, ids=lambda call: f"{resolve_name(call.called)} in {call.function}"
)
def test_each_answered_call_is_still_made(call: internals.AnsweredCall) -> None:
    callers = [code for called, code in calls_of_torchrl() if called == call.called]
    others = sorted(
        {":".join(internals.place_of(code)) for code in callers if INSTALLED in Path(code.co_filename).parents}
    )
    assert any(call.is_made_by(code) for code in callers), (
        f"{MOVED}: {call.function} in {call.file} no longer calls {resolve_name(call.called)}. These functions do: "
        f"{', '.join(others) or 'none'}. If one of them replaces it and the answer is still correct there, put it in "
        "the row of ANSWERED_CALLS in torchrl_internals.py. If TorchRL no longer makes the call, delete the row: "
        "test_torchrl.py and test_torchrl_random.py then show whether its heads can still be captured."
    )


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """All functions in a compiled file."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


class Recorder(TorchFunctionMode):
    """Records which function calls which torch function."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, CodeType]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls.append((func, sys._getframe(1).f_code))
        return func(*args, **(kwargs or {}))


@cache
def calls_of_torchrl() -> list[tuple[Any, CodeType]]:
    """The torch calls of the TorchRL code with answers: specs, truncated normals and distributional values."""
    torch.manual_seed(0)
    bounded, one_hot = Bounded(-1, 1, (2,)), OneHot(3)
    values = torch.randn(4, 3).log_softmax(0)
    head = modules.DistributionalQValueModule(action_space="categorical", support=torch.arange(4.0))
    with Recorder() as recorder, torch.no_grad():
        for spec in (bounded, one_hot):
            spec.project(spec.rand())
            spec.project(spec.rand() + 5)
        modules.TruncatedNormal(torch.zeros(2), torch.ones(2), low=-1, high=1).rsample()
        head(TensorDict({"action_value": values}, []))
    return recorder.calls


# ---- classes by name ----


HERE = "torchrl_internals.py"
TRANSFORMS: dict[str, Iterable[str]] = {
    f"WITHOUT_PART_IN_A_STEP in {HERE}": internals.WITHOUT_PART_IN_A_STEP,
    f"STEPPING_THE_ENVIRONMENT in {HERE}": internals.STEPPING_THE_ENVIRONMENT,
    f"STATEFUL in {HERE}": internals.STATEFUL,
    f"RUNNING_NORMALIZATIONS in {HERE}": internals.RUNNING_NORMALIZATIONS,
    f"filled_from_environment() in {HERE}": ["ActionScaling", "ActionDiscretizer"],
    "STAGES_BY_NAME in transforms.py": STAGES_BY_NAME,
    "_are_resized_pixels() in transforms.py": ["ToTensorImage"],
}
OTHERS: list[tuple[str, str, Iterable[Any]]] = [
    (f"MULTI_AGENT_NETWORK in {HERE}", internals.MULTI_AGENT_NETWORK, modules.MultiAgentMLP.__mro__),
    (f"MULTI_AGENT_NETWORK in {HERE}", internals.MULTI_AGENT_NETWORK, modules.MultiAgentConvNet.__mro__),
    *((f"RECURRENT_NETWORKS in {HERE}", name, vars(modules).values()) for name in internals.RECURRENT_NETWORKS),
    (f"SELECTION_OF_KEYS in {HERE}", internals.SELECTION_OF_KEYS, vars(tensordict.nn.common).values()),
    ("_capturable() in modules.py", "TanhDelta", vars(modules).values()),
    ("_masks_in() in modules.py", "EGreedyModule", vars(modules).values()),
]


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table, names in TRANSFORMS.items() for name in sorted(names)]
)
def test_transforms_have_the_names_that_they_are_known_by(table: str, name: str) -> None:
    found: Any = getattr(envs.transforms, name, None)
    assert getattr(found, "__name__", None) == name and issubclass(found, envs.Transform), (
        f"{MOVED}: torchrl.envs.transforms has no class {name}. Rename it in {table} if another class replaces it "
        f"(see `grep -rn '^class ' {INSTALLED / 'envs' / 'transforms'}` and the release notes), or delete it there."
    )


@pytest.mark.parametrize(("place", "name", "known"), OTHERS, ids=[name for _, name, _ in OTHERS])
def test_modules_have_the_names_that_they_are_known_by(place: str, name: str, known: Iterable[Any]) -> None:
    names = {item.__name__ for item in known if isinstance(item, type)}
    assert name in names, (
        f"{MOVED}: class {name} not found among {', '.join(sorted(names))}. Put the name of the class that "
        f"replaces it into {place}. Search for it with "
        f"`grep -rn 'class .*{name.strip('_')[:8]}' {INSTALLED} {INSTALLED.parent / 'tensordict'}`."
    )


@pytest.mark.parametrize("make", [modules.LSTMModule, modules.GRUModule])
def test_recurrent_modules_keep_their_network_under_the_known_name(make: Any) -> None:
    module = make(input_size=2, hidden_size=3, in_key="observation", out_key="features")
    found = getattr(module, internals.RECURRENT_NETWORKS.get(make.__name__, ""), None)
    assert isinstance(found, torch.nn.Module), (
        f"{MOVED}: {make.__name__} stores its network under a different name, one of "
        f"{', '.join(name for name, _ in module.named_children())}. Put it into RECURRENT_NETWORKS in "
        "torchrl_internals.py."
    )
    assert internals.recurrent_network(module) is found


# ---- attributes ----


class Name(NamedTuple):
    """An attribute of TorchRL's objects that is not part of its documented interface."""

    name: str
    used_by: str
    owner: Callable[[], Any]


@cache
def environment() -> Any:
    env = ScriptedEnv({"observation": torch.zeros(2, 3)}, Bounded(-1, 1, (2,)), (2,))
    return TransformedEnv(env, envs.ObservationNorm(0.0, 1.0, in_keys=["observation"]))


def attached() -> Any:
    """A transform with its environment, which must stay alive as long as the transform."""
    transform = environment().transform
    assert transform.parent is not None
    return transform


def linear() -> Any:
    return TensorDictModule(torch.nn.Linear(2, 2), in_keys=["observation"], out_keys=["action"])


def multi_agent(share_params: bool = False) -> Any:
    return modules.MultiAgentMLP(2, 2, 2, centralized=False, share_params=share_params, depth=1, num_cells=4)


def noisy() -> Any:
    return modules.OrnsteinUhlenbeckProcessModule(spec=Composite(action=Unbounded((2,))), annealing_num_steps=1)


TRANSFORM = envs.Transform
PRIVATE = [
    Name("_call", "works_by_tensor() and function_of_tensordict()", lambda: TRANSFORM),
    Name("_apply_transform", "function_of_tensor()", lambda: TRANSFORM),
    Name("_inv_call", "inverts_by_tensor() and inverse_of_tensordict()", lambda: TRANSFORM),
    Name("_inv_apply_transform", "inverse_of_tensor()", lambda: TRANSFORM),
    Name("_step", "has_a_step_of_its_own() and observer()", lambda: TRANSFORM),
    Name("_reset", "observer()", lambda: TRANSFORM),
    Name("_container", "without_environment()", attached),
    Name("_parent", "without_environment() and filled_from_environment()", attached),
    Name("_ensure_initialized", "filled_from_environment()", lambda: envs.transforms.ActionScaling),
    Name("_module_iter", "parts_of_sequence()", lambda: TensorDictSequential),
    Name("_spec", "move_specs_to_cpu()", lambda: modules.SafeModule(linear().module, ["a"], ["b"])),
    Name("_empty_net", "fill_multi_agent_networks()", multi_agent),
]
UNDOCUMENTED = [
    Name("params", "fill_multi_agent_networks() in torchrl_internals.py", multi_agent),
    Name("share_params", "fill_multi_agent_networks() in torchrl_internals.py", multi_agent),
    Name("n_agents", "fill_multi_agent_networks() in torchrl_internals.py", multi_agent),
    Name("vmap_func_module", "fill_multi_agent_networks() in torchrl_internals.py", multi_agent),
    Name("partial_tolerant", "parts_of_sequence() in torchrl_internals.py", lambda: TensorDictSequential(linear())),
    Name("parent", "filled_from_environment() in torchrl_internals.py", lambda: TRANSFORM),
    Name("ou", "_ModuleStage in modules.py", noisy),
    Name("is_init_key", "_ModuleStage in modules.py", noisy),
    Name("noise_key", "_ModuleStage in modules.py", lambda: noisy().ou),
    Name("steps_key", "_ModuleStage in modules.py", lambda: noisy().ou),
    Name("action_mask_key", "_masks_in() in modules.py", lambda: modules.QValueModule(action_space="categorical")),
    Name("action_mask_key", "_masks_in() in modules.py", lambda: modules.EGreedyModule(spec=OneHot(2))),
    Name("shape_tolerant", "_are_resized_pixels() in transforms.py", lambda: envs.ToTensorImage()),
    Name("future", "_frames() in transforms.py", lambda: envs.CatFrames(2, -1, in_keys=["pixels"])),
    Name("as_inverse", "_frames() in transforms.py", lambda: envs.CatFrames(2, -1, in_keys=["pixels"])),
    Name("step_count_keys", "_counter() in transforms.py", lambda: envs.StepCounter),
    Name("init_keys", "_flags() in transforms.py", lambda: envs.InitTracker),
]
OF_TORCH_AND_PYTHON = {"_buffers", "_forward_hooks", "_getframe", "_modules", "_parameters"}


@pytest.mark.parametrize(
    "item",
    [*(item._replace(used_by=f"{item.used_by} in torchrl_internals.py") for item in PRIVATE), *UNDOCUMENTED],
    ids=lambda item: item.name,
)
def test_objects_have_the_attributes_that_are_used(item: Name) -> None:
    owner = item.owner()
    kind = owner if isinstance(owner, type) else type(owner)
    assert hasattr(owner, item.name), (
        f"{MOVED}: {kind.__name__} has no {item.name}, which {item.used_by} relies on. Find the "
        f"replacement in {inspect.getsourcefile(kind)}, and change that function "
        "and the row of this test."
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_step", ["self", "tensordict", "next_tensordict"]),
        ("_reset", ["self", "tensordict", "tensordict_reset"]),
    ],
)
def test_transforms_are_called_with_the_arguments_that_the_observer_takes(name: str, arguments: list[str]) -> None:
    found = list(inspect.signature(getattr(TRANSFORM, name)).parameters)
    assert found == arguments, (
        f"{MOVED}: Transform.{name} takes {found}. Give observer() in torchrl_internals.py the same arguments."
    )


def test_a_copied_transform_has_lost_its_environment() -> None:
    transform = attached()
    assert internals.without_environment(transform).parent is None, (
        f"{MOVED}: a transform stores its environment in attributes other than _container and _parent. Read what "
        f"Transform.reset_parent() sets to None, in {inspect.getsourcefile(TRANSFORM)}, and do the same in "
        "without_environment() of torchrl_internals.py."
    )
    assert transform.parent is not None


@pytest.mark.parametrize("share_params", [False, True])
def test_filled_multi_agent_networks_compute_the_same(share_params: bool) -> None:
    torch.manual_seed(0)
    network = multi_agent(share_params)
    filled = internals.own(network)
    internals.fill_multi_agent_networks(filled)
    inputs = torch.randn(3, 2, 2)
    torch.testing.assert_close(
        filled(inputs),
        network(inputs),
        msg=lambda text: (
            f"{MOVED}: the forward of {internals.MULTI_AGENT_NETWORK} uses its networks in a different way. Read it in "
            f"{inspect.getsourcefile(modules.MultiAgentMLP)} and change fill_multi_agent_networks() in "
            f"torchrl_internals.py.\n{text}"
        ),
    )


# ---- private names in other files ----


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_private_names_are_used_in_one_module_and_checked_here(path: Path) -> None:
    used = private_names(path)
    if path.name != "torchrl_internals.py":
        assert not used, f"{path.name} uses {', '.join(sorted(used))}: add a function for it to torchrl_internals.py."
    unchecked = used - OF_TORCH_AND_PYTHON - {item.name for item in PRIVATE}
    assert not unchecked, (
        f"torchrl_internals.py uses {', '.join(sorted(unchecked))}: add a row to PRIVATE in this file."
    )


def private_names(path: Path) -> set[str]:
    """Attributes with a leading underscore of objects other than `self` and `super()`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[^_]\w*", node.attr):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "super")):
                found.add(node.attr)
    return found
