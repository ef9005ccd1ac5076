"""Substitutes are put in the place of originals for a while, with all instances, and taken back."""

import copy
import functools
from typing import Any

import pytest
import torch

from exploy.environment.substitutes import substitute
from exploy.errors import SubstituteError
from exploy.live.substituted import substituted
from tests.support.ring_robots import Ring, Shifting, as_ring, in_order, shifting_rings


def half(x: float) -> float:
    return x / 2


def filled_ring(length: int = 3, frames: int = 5) -> Ring:
    ring = Ring(length, 2)
    for value in range(frames):
        ring.push(torch.full((1, 2), float(value)))
    return ring


def test_a_function_is_replaced_wherever_it_is_held():
    held: list[Any] = [half, functools.partial(half, 3.0), {"f": half}["f"]]
    with substituted([substitute(half, lambda x: -x)]):
        assert [held[0](3.0), held[1](), held[2](3.0), half(3.0)] == [-3.0] * 4
    assert [held[0](3.0), held[1](), half(3.0)] == [1.5] * 3


def test_instances_are_converted_and_converted_back():
    ring, sub = filled_ring(), type("SubRing", (Ring,), {})(3, 2)
    frames, before = ring.frames, ring.frames.clone()
    sub.push(torch.ones(1, 2))
    with substituted([shifting_rings()]):
        assert torch.equal(ring.frames[:, 0], torch.tensor([2.0, 3.0, 4.0]))
        assert torch.equal(sub.ago(0), torch.ones(1, 2))
    assert ring.frames is frames and torch.equal(ring.frames, before) and ring.newest == 2
    assert torch.equal(sub.ago(0), torch.ones(1, 2))


def test_the_environment_goes_on_as_if_nothing_had_been():
    ring, twin = filled_ring(), filled_ring()
    with substituted([shifting_rings()], among=[ring]):
        ring.push(torch.full((1, 2), 7.0))
    twin.push(torch.full((1, 2), 7.0))
    assert torch.equal(ring.frames, twin.frames) and ring.newest == twin.newest


def test_instances_that_are_made_or_copied_in_between_are_right_too():
    ring = filled_ring()
    with substituted([shifting_rings()]):
        made, copied = filled_ring(4, 6), copy.deepcopy(ring)
        assert torch.equal(made.ago(1), torch.full((1, 2), 4.0))
    assert torch.equal(made.ago(1), torch.full((1, 2), 4.0))
    assert torch.equal(copied.frames, ring.frames) and torch.equal(copied.ago(0), ring.ago(0))


def test_other_classes_that_inherit_a_method_keep_it():
    class Base:
        def name(self) -> str:
            return "base"

    class One(Base):
        pass

    class Two(Base):
        pass

    class Other:
        def name(self: Any) -> str:
            return "other"

    with substituted([substitute(One, Other)]):
        assert (One().name(), Two().name()) == ("other", "base")
    assert One().name() == "base"


def test_after_an_error_all_is_as_before():
    ring = filled_ring()
    codes, before = [Ring.push.__code__, Ring.ago.__code__, Ring.__init__.__code__], ring.frames.clone()
    with pytest.raises(KeyError), substituted([shifting_rings(), substitute(half, lambda x: -x)]):
        raise KeyError
    assert codes == [Ring.push.__code__, Ring.ago.__code__, Ring.__init__.__code__]
    assert half(3.0) == 1.5 and torch.equal(ring.frames, before)


def test_if_an_instance_cannot_be_converted_the_others_are_converted_back():
    rings = [filled_ring(), filled_ring(4), filled_ring(2)]
    before = [ring.frames.clone() for ring in rings]

    def failing(ring: Any) -> None:
        if len(ring.frames) == 2:
            raise ZeroDivisionError("too short")
        in_order(ring)

    item = substitute(Ring, Shifting, from_original=failing, to_original=as_ring)
    code = Ring.push.__code__
    message = r"test_substituted.py:\d+ .*cannot be converted.*too short"
    with pytest.raises(SubstituteError, match=message), substituted([item]):
        raise AssertionError("not reached")
    assert all(torch.equal(ring.frames, value) for ring, value in zip(rings, before, strict=True))
    assert Ring.push.__code__ is code


def test_inference_tensors_are_converted():
    with torch.inference_mode():
        ring = filled_ring()
    before = ring.frames.clone()
    with substituted([shifting_rings()], among=[ring]):
        assert torch.equal(ring.frames[:, 0], torch.tensor([2.0, 3.0, 4.0]))
    assert torch.equal(ring.frames, before) and ring.frames.is_inference()
