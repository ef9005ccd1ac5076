"""Tasks of simulators without registrations: discovered by the table of the simulator, or by the paths of tensors."""

from pathlib import Path
from typing import Any

import exploy
from exploy.diagnosis.pasting import paste
from exploy.discovery.discovery import Discovery
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Input, Memory, Output
from exploy.environment.offered_ports import OfferedPort
from exploy.runtime import Controller
from exploy.simulators.manager_based.environment import ManagerBasedEnvironment
from tests.support.simulator_exports import Exported, assert_agrees, assert_first_tick_agrees

STEPS = 60


def bare(env: ManagerBasedEnvironment, *, is_nameless: bool = False) -> Any:
    """The adapter of the same environment with nothing registered; a nameless one offers no more than Outputs."""
    kind: Any = _nameless(type(env)) if is_nameless else type(env)
    return kind(env.env, env._groups, env._clip_actions, motors=env._motors is not None, register=False)


def assert_discovered_as_by_hand(exported: Exported, folder: Path) -> None:
    """The table gives what the adapter registers by itself, and the same ports."""
    env, actor, file = exported
    other = bare(env)
    found = exploy.discover(other, actor)
    assert found.ok, str(found)
    assert not other.context_manager().get_input_components()
    found.register(other, actor)
    written = exploy.export(other, actor, folder / "discovered.onnx", strict=False).path
    one, two = Controller.load(file).contract, Controller.load(written).contract
    assert {port.name: port for port in one.inputs} == {port.name: port for port in two.inputs}
    assert {port.name: port for port in one.outputs} == {port.name: port for port in two.outputs}
    assert_agrees((other, actor, written), STEPS)


def assert_discovered_by_paths(env: ManagerBasedEnvironment, actor: ExportableActor, folder: Path) -> Discovery:
    """Without a table the file of what is found agrees as well; what only resets change is taken as proposed."""
    other = bare(env, is_nameless=True)
    found = exploy.discover(other, actor)
    assert not found.problems, str(found)
    found.register(other, actor)
    for question in found.questions:
        paste(question.options[question.proposal], other, actor)
    exported = other, actor, exploy.export(other, actor, folder / "by_paths.onnx").path  # checked as well
    assert_agrees(exported, STEPS)
    assert_first_tick_agrees(exported)
    equal = equal_ports(env, other)
    print(f"{len(equal)} of {len(_ports(env))} ports alike; not {', '.join(sorted(_ports(env).keys() - equal))}")
    return found


def equal_ports(by_hand: ManagerBasedEnvironment, found: ManagerBasedEnvironment) -> set[str]:
    """The names of the Inputs and Memories of the one that have the values of one of the other."""
    values = [(isinstance(item, Memory), item.fetch().reshape(-1).tolist()) for item in _ports(found).values()]
    return {
        name
        for name, item in _ports(by_hand).items()
        if (isinstance(item, Memory), item.fetch().reshape(-1).tolist()) in values
    }


def _ports(env: ManagerBasedEnvironment) -> dict[str, Input | Output]:
    return {item.name: item for item in env.context_manager().get_input_components()}


def _nameless(kind: type[ManagerBasedEnvironment]) -> type[ManagerBasedEnvironment]:
    class Nameless(kind):  # type: ignore[misc, valid-type]
        def offered_ports(self, **options: Any) -> list[OfferedPort]:
            return [port for port in super().offered_ports(with_choices=False) if port.kind == "output"]

    return Nameless
