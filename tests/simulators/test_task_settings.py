"""Settings of tasks, by dotted names."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from exploy.errors import FactoryError
from exploy.simulators.task_settings import apply_settings


@dataclass
class Command:
    """A part of a configuration."""

    file: str = ""
    range: tuple[float, float] = (0.0, 1.0)


@dataclass
class Configuration:
    """A configuration with a dictionary of parts."""

    length: float = 20.0
    commands: dict[str, Any] = field(default_factory=lambda: {"motion": Command()})


def test_attributes_and_items_are_set() -> None:
    configuration = Configuration()
    apply_settings(configuration, {"length": 1.0, "commands.motion.file": "walk.npz", "commands.motion.range": [2, 3]})
    assert configuration == Configuration(1.0, {"motion": Command("walk.npz", (2, 3))})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lenght", r"no lenght\. It has: length, commands"),
        ("commands.walk.file", r"no walk in commands\. It has: motion"),
        ("length.most", r"no most in length, which is the value 20\.0"),
        ("commands.motion.name", r"no name in commands\.motion\. It has: file, range"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_those_that_do(name: str, message: str) -> None:
    with pytest.raises(FactoryError, match=message):
        apply_settings(Configuration(), {name: 1})
