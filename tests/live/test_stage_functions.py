"""Functions of a stage are found by the operators that they call, or else by their names."""

import torch

from exploy.live.stage_functions import functions_of_stages


def noted(function):
    def noting(*args):
        function(*args)

    return noting


def sleep() -> None:
    pass


class Inner:
    def __init__(self) -> None:
        self.value = torch.zeros(2)
        self.notes: list[str] = []

    def observe(self) -> torch.Tensor:
        self.note("observe")
        return self.value + 1

    def hold(self) -> None:
        self.note("hold")
        self.rest()

    @noted
    def rest(self) -> None:
        sleep()

    def note(self, text: str) -> None:
        self.notes.append(text)


class Outer:
    def __init__(self) -> None:
        self.inner = Inner()

    def observe(self) -> torch.Tensor:
        return self.inner.observe()

    def hold(self) -> None:
        self.inner.hold()


def names_of_stages(outer: Outer) -> dict[str, list[str]]:
    stages = {"observe": outer.observe, "apply": outer.hold}
    methods = {"observe": Outer.observe, "apply": Outer.hold}
    found = functions_of_stages(stages, methods, {Outer, Inner}, lambda: None)
    return {stage: [item.code.co_qualname for item in functions] for stage, functions in found.items()}


def test_functions_that_call_operators_are_found():
    assert names_of_stages(Outer())["observe"] == ["Outer.observe", "Inner.observe"]


def test_a_stage_without_operators_is_followed_by_name():
    """What both stages call is of neither."""
    assert names_of_stages(Outer())["apply"] == [
        "Outer.hold",
        "Inner.hold",
        "noted.<locals>.noting",
        "Inner.rest",
        "sleep",
    ]
