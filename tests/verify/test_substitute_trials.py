"""A replacement is compared with its original on random data before it is trusted."""

from typing import Any

import pytest
import torch

from exploy.environment.substitutes import Substitute, substitute
from exploy.errors import SubstituteError
from exploy.verify.substitute_trials import Trial, try_substitute
from exploy.verify.trusted_substitutes import trusted_substitutes
from exploy.verify.watched_calls import watch_calls
from tests.support.builds import Body, Hooked, build
from tests.support.environments import make_actor
from tests.support.ring_robots import Ring, RingRobot, Shifting, as_ring, in_order, shifting_rings


def tried(body: type[Body], item: Substitute) -> Trial:
    env = build(Hooked, body, warm=2)
    env.context_manager().add_substitute(item)
    calls = watch_calls(env, make_actor(4), with_reset=True)
    return try_substitute(item, [call for call in calls if call.substitute is item])


# -- Functions ------------------------------------------------------------------------------------------------------


def norm_of_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy((x.numpy() ** 2).sum(-1, keepdims=True) ** 0.5)


class Norms(Body):
    def observe(self) -> torch.Tensor:
        return torch.cat([self.pos / norm_of_rows(self.pos), self.vel], -1)


def test_an_equal_function_passes_with_what_was_compared():
    trial = tried(Norms, substitute(norm_of_rows, lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True)))
    assert trial.comparisons >= 50
    assert trial.largest_error < 1e-6


def test_the_line_element_and_difference_of_a_planted_error_are_named():
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return 1e-3 + torch.linalg.vector_norm(x, dim=-1, keepdim=True)

    line, original = wrong.__code__.co_firstlineno, norm_of_rows.__code__.co_firstlineno
    with pytest.raises(SubstituteError) as raised:
        tried(Norms, substitute(norm_of_rows, wrong))
    message = str(raised.value)
    assert message.startswith(f"{__file__}:{line} (in wrong): ")
    assert f"{__file__}:{original} (in norm_of_rows)" in message
    assert "element [0, 0] is" in message and "largest difference 0.001" in message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.abs().sum(-1, keepdim=True), "element"),
        (lambda x: torch.linalg.vector_norm(x, dim=-1), r"float32 of shape \(1,\), expected .* \(1, 1\)"),
        (lambda x: torch.linalg.vector_norm(x.double(), dim=-1, keepdim=True), "float64 .* expected torch.float32"),
        (lambda x: None, "it returned argument 0, expected result, argument 0"),
        (lambda x: x.no_such_method(), r"AttributeError .* raised at .*test_substitute_trials.py:\d+"),
        (lambda x: torch.linalg.vector_norm(x.mul_(1.5), dim=-1, keepdim=True) / 1.5, "argument 0 in call 0"),
        (lambda x: torch.where(x[:, :1] > 0, x.norm(dim=-1, keepdim=True), torch.zeros(1, 1)), "element"),
    ],
)
def test_wrong_functions_are_refused(wrong, message):
    with pytest.raises(SubstituteError, match=message):
        tried(Norms, substitute(norm_of_rows, wrong))


class Raising(Body):
    def fail(self) -> torch.Tensor:
        raise ZeroDivisionError("no result")

    def observe(self) -> torch.Tensor:
        try:
            self.fail()
        except ZeroDivisionError:
            return torch.cat([self.pos, self.vel], -1)
        raise AssertionError


def test_what_cannot_be_compared_is_not_trusted():
    with pytest.raises(SubstituteError, match=r"could not be compared .* the original raised ZeroDivisionError"):
        tried(Raising, substitute(Raising.fail, lambda self: self.pos))


class Hidden(Body):
    def send(self, pos: torch.Tensor) -> None:
        pass

    def observe(self) -> torch.Tensor:
        self.send(self.pos)
        return super().observe()


def test_what_has_no_effect_that_can_be_seen_is_not_trusted():
    with pytest.raises(SubstituteError, match="returns nothing, and changes nothing that can be seen"):
        tried(Hidden, substitute(Hidden.send, lambda self, pos: None))


# -- State ----------------------------------------------------------------------------------------------------------


class Drives(Body):
    """Copies what a model of its motors has computed into the efforts of all joints, by numpy."""

    def setup(self) -> None:
        self.computed, self.efforts = torch.ones(1, 2), torch.zeros(1, 2)

    def publish(self) -> None:
        self.efforts.numpy()[:] = self.computed.numpy()

    def observe(self) -> torch.Tensor:
        self.computed.copy_(0.5 * self.pos)
        self.publish()
        return torch.cat([self.efforts, self.vel], -1)


def test_a_copy_from_one_tensor_to_another_is_compared_although_it_does_nothing_the_second_time():
    def published(drives: Drives) -> None:
        drives.efforts.copy_(drives.computed)

    assert tried(Drives, substitute(Drives.publish, published)).comparisons >= 5


def test_a_wrong_copy_is_refused():
    def doubled(drives: Drives) -> None:
        drives.efforts.copy_(2 * drives.computed)

    with pytest.raises(SubstituteError, match=r"efforts.*element"):
        tried(Drives, substitute(Drives.publish, doubled))


class Filtered(Body):
    """Writes state that nothing returns."""

    def setup(self) -> None:
        self.filtered = torch.zeros(1, 2)

    def update(self) -> None:
        self.filtered = 0.5 * self.filtered + self.pos

    def observe(self) -> torch.Tensor:
        self.update()
        return torch.cat([self.filtered, self.vel], -1)


def test_state_that_a_method_writes_is_compared():
    def right(self: Any) -> torch.Tensor:
        self.filtered = torch.add(self.pos, self.filtered, alpha=0.5)
        return self.filtered

    def forgetful(self: Any) -> torch.Tensor:
        return self.filtered

    def other(self: Any) -> torch.Tensor:
        self.filtered = 0.4 * self.filtered + self.pos
        return self.filtered

    class Returning(Filtered):
        def update(self) -> torch.Tensor:  # type: ignore[override]
            super().update()
            return self.filtered

    assert tried(Returning, substitute(Returning.update, right)).comparisons
    with pytest.raises(SubstituteError, match="element"):
        tried(Returning, substitute(Returning.update, other))
    with pytest.raises(SubstituteError, match=r"args\[0\].filtered after a sequence|result in call"):
        tried(Returning, substitute(Returning.update, forgetful))


def test_a_method_that_returns_nothing_is_compared_by_the_state_that_it_leaves():
    def right(self: Any) -> None:
        self.filtered = torch.add(self.pos, self.filtered, alpha=0.5)

    def forgetful(self: Any) -> None:
        pass

    assert tried(Filtered, substitute(Filtered.update, right)).comparisons
    with pytest.raises(SubstituteError, match=r"args\[0\].filtered after a sequence of calls: element"):
        tried(Filtered, substitute(Filtered.update, forgetful))


class Unit(Body):
    """Its heading is a direction, and its code relies on that."""

    def setup(self) -> None:
        self.direction = torch.tensor([[0.6, 0.8]])

    @property
    def angle(self) -> torch.Tensor:
        return torch.atan2(self.direction[:, 1:], self.direction[:, :1])

    def observe(self) -> torch.Tensor:
        return torch.cat([self.angle, self.angle, self.vel], -1)


def test_state_that_the_replacement_reads_is_varied_and_directions_stay_directions():
    def right(self: Any) -> torch.Tensor:  # only for directions
        x, y = self.direction[:, :1], self.direction[:, 1:]
        return torch.sign(y) * torch.acos(x.clamp(-0.9999999, 0.9999999).double()).float()

    def only_as_found(self: Any) -> torch.Tensor:
        return torch.atan2(self.direction[:, 1:], self.direction[:, :1].abs())

    assert tried(Unit, substitute(Unit.angle, right)).largest_error < 1e-5
    with pytest.raises(SubstituteError, match="element"):
        tried(Unit, substitute(Unit.angle, only_as_found))


class Cached(Unit):
    """Computes its angle once per time step."""

    def setup(self) -> None:
        super().setup()
        self.time, self.computed_at, self.known = 1.0, 0.0, torch.zeros(1, 1)

    @property
    def angle(self) -> torch.Tensor:
        if self.computed_at < self.time:
            self.known[:] = torch.atan2(self.direction[:, 1:], self.direction[:, :1])
            self.computed_at = self.time
        return self.known


def test_a_cache_is_marked_as_outdated_before_each_call():
    def computed(self: Any) -> torch.Tensor:
        self.known[:] = torch.atan2(self.direction[:, 1:], self.direction[:, :1])
        self.computed_at = self.time
        return self.known

    def outdate(self: Any) -> None:
        self.computed_at = -1.0

    assert tried(Cached, substitute(Cached.angle, computed, prepare=outdate)).comparisons >= 50


# -- Classes --------------------------------------------------------------------------------------------------------


def test_an_equal_class_passes():
    trial = tried(RingRobot, shifting_rings())
    assert trial.comparisons >= 100 and trial.largest_error == 0.0


class TooFar(Shifting):
    push = Shifting.push

    def ago(self: Any, steps: int) -> torch.Tensor:
        return self.frames[-1 - min(steps + 1, 2)].clone()[None]


class NotCounting(Shifting):
    ago = Shifting.ago

    def push(self: Any, frame: torch.Tensor) -> None:
        self.frames.copy_(torch.cat([self.frames[1:], frame]))


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (TooFar, r"\(in ago\): .*TooFar does not do what .*Ring does in ago \(.*\(in ago\)\): result in call 1.*push"),
        (NotCounting, r"self.newest after a sequence of calls is 3, expected \d"),
    ],
)
def test_wrong_classes_are_refused_with_the_line_of_the_method(replacement, message):
    with pytest.raises(SubstituteError, match=message):
        tried(RingRobot, shifting_rings(replacement))


def test_wrong_conversions_are_refused():
    item = substitute(Ring, Shifting, from_original=in_order, to_original=lambda ring: None)
    with pytest.raises(SubstituteError, match=r"self.frames after a sequence of calls"):
        tried(RingRobot, item)
    item = substitute(Ring, Shifting, from_original=lambda ring: None, to_original=as_ring)
    with pytest.raises(SubstituteError, match=r"result in call 1"):
        tried(RingRobot, item)


def test_calls_that_the_environment_does_not_make_are_compared_if_they_are_given():
    def clears(ring: Any, generator: torch.Generator) -> tuple[Any, ...]:
        return (
            ("clear",)
            if torch.rand((), generator=generator) < 0.5
            else ("push", torch.randn(1, 2, generator=generator))
        )

    class ForgetsClear(Shifting):
        push, ago = Shifting.push, Shifting.ago

        def clear(self: Any) -> None:
            self.frames[-1:] = 0

    env = build(Hooked, RingRobot, warm=2)
    for item, passes in ((shifting_rings(ForgetsClear), True), (shifting_with(ForgetsClear, clears), False)):
        with env.context_manager().registrations_undone():
            env.context_manager().add_substitute(item)
            calls = watch_calls(env, make_actor(4), with_reset=False)
        if passes:  # the pipeline does not clear, so nothing is known about it
            assert try_substitute(item, calls).comparisons
        else:
            with pytest.raises(SubstituteError, match=r"clear|frames"):
                try_substitute(item, calls)


def shifting_with(replacement: type, random_call: Any) -> Substitute:
    return substitute(Ring, replacement, from_original=in_order, to_original=as_ring, random_call=random_call)


# -- An environment -------------------------------------------------------------------------------------------------


def state_of(env: Any) -> list[Any]:
    body = env.body
    tensors = [body.history.frames, body.delay.frames, body.pos, body.vel, body.targets]
    return [
        body.history.newest,
        body.delay.newest,
        *(id(item) for item in tensors),
        *(item.tolist() for item in tensors),
    ]


def test_a_trial_leaves_no_trace():
    env = build(Hooked, RingRobot, warm=2)
    env.context_manager().add_substitute(shifting_rings())
    before, random_state = state_of(env), torch.get_rng_state()
    codes = [Ring.push.__code__, Ring.ago.__code__, Ring.__init__.__code__]
    with trusted_substitutes(env, make_actor(4), with_reset=True) as found:
        assert found.unused == () and found.used is not None
    assert state_of(env) == before and torch.equal(torch.get_rng_state(), random_state)
    assert codes == [Ring.push.__code__, Ring.ago.__code__, Ring.__init__.__code__]


def test_an_original_that_is_not_called_is_not_replaced():
    env = build(Hooked, RingRobot, warm=2)
    env.context_manager().add_substitutes([shifting_rings(), substitute(norm_of_rows, lambda x: 0 * x)])
    with trusted_substitutes(env, None, with_reset=False) as found:
        assert found.unused == (f"{__name__}.norm_of_rows",)
        assert [item.original for item in found.used or ()] == ["tests.support.ring_robots.Ring"]
        assert norm_of_rows(torch.tensor([[3.0, 4.0]])) == 5
