"""What can be a substitute of what."""

import functools

import pytest
import torch

import exploy
from exploy.environment.context_manager import ContextManager
from exploy.errors import ComponentError
from tests.support.ring_robots import Ring, Shifting, as_ring, in_order, shifting_rings


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


class Tank:
    level = torch.zeros(1)

    @property
    def depth(self) -> torch.Tensor:
        return self.level

    def fill(self, amount: torch.Tensor, *, twice: bool = False) -> torch.Tensor:
        return self.level + amount


def test_functions_methods_properties_and_classes_have_substitutes():
    assert [pair.name for pair in exploy.substitute(double, twice).pairs] == ["double"]
    assert exploy.substitute(Tank.fill, lambda self, amount: amount).name == f"{__name__}.Tank.fill"
    assert exploy.substitute(Tank.depth, lambda self: self.level).name == f"{__name__}.Tank.depth"
    rings = shifting_rings()
    assert (rings.name, rings.owner) == ("tests.support.ring_robots.Ring", Ring)
    assert [pair.name for pair in rings.pairs] == ["push", "ago"]
    assert str(rings) == "tests.support.ring_robots.Shifting for tests.support.ring_robots.Ring"


class Halved:
    @property
    def depth(self) -> torch.Tensor:
        return 0.5 * torch.ones(1)


class HalvedAndFilled(Halved):
    def fill(self, amount: torch.Tensor, *, twice: bool = False) -> torch.Tensor:
        return amount


def test_what_a_replacement_inherits_replaces_too():
    assert [pair.name for pair in exploy.substitute(Tank, HalvedAndFilled).pairs] == ["depth", "fill"]


def test_what_a_replacement_inherits_from_the_original_does_not():
    overflowing = type("Overflowing", (Tank,), {"fill": lambda self, amount, twice=False: amount})
    assert [pair.name for pair in exploy.substitute(Tank, overflowing).pairs] == ["fill"]


@pytest.mark.parametrize(
    ("original", "replacement", "message"),
    [
        (torch.sin, double, "is written in Python, got .* Substitute the Python function that calls it"),
        (functools.lru_cache(double), twice, "is written in Python"),
        (double, torch.sin, "The replacement of a function must be a Python function"),
        (double, 3, "The replacement of a function must be a Python function, got 3"),
        (Ring, double, "The replacement of a class must be a class"),
        (Tank.fill, double, r"double cannot be called like .*Tank.fill\(self, amount"),
        (Ring, Tank, "Tank defines the property depth, but .*Ring has no property of this name"),
        (Ring, type("Empty", (), {}), "defines no method or property"),
        (Ring, type("Made", (), {"__init__": lambda self: None}), "instances are made by the original"),
    ],
)
def test_what_does_not_fit_is_refused(original, replacement, message):
    with pytest.raises(ComponentError, match=message):
        exploy.substitute(original, replacement)


def test_conversions_are_for_classes_and_come_in_pairs():
    with pytest.raises(ComponentError, match="belong to the substitute of a class"):
        exploy.substitute(double, twice, from_original=in_order, to_original=as_ring)
    with pytest.raises(ComponentError, match="give both, or none"):
        exploy.substitute(Ring, Shifting, from_original=in_order)
    with pytest.raises(ComponentError, match=r"has no __init__\(\) that is written in Python"):
        exploy.substitute(Tank, type("Full", (), {"depth": Tank.depth}), from_original=in_order, to_original=as_ring)


def test_a_context_manager_takes_each_function_once():
    manager = ContextManager()
    manager.add_substitute(shifting_rings())
    with pytest.raises(ComponentError, match=r"Ring.push is already replaced by .*Shifting"):
        manager.add_substitutes([exploy.substitute(double, twice), exploy.substitute(Ring.push, Shifting.push)])
    with pytest.raises(ComponentError, match=r"takes the result of exploy.substitute"):
        manager.add_substitute(Shifting)  # type: ignore[arg-type]
    assert [item.owner for item in manager.substitutes] == [Ring]
    assert "substitute" in str(manager) and "Shifting" in str(manager)


def test_registrations_are_undone():
    manager = ContextManager()
    with manager.registrations_undone():
        manager.add_substitute(shifting_rings())
    assert manager.substitutes == ()
