"""Attributes that are set for a while."""

import pytest

from exploy.simulators.manager_based.replaced_attributes import attributes_replaced


class Owner:
    """Has a method, and may have an attribute of its own."""

    def act(self) -> str:
        return "method"


def test_a_method_is_that_of_the_class_again() -> None:
    owner = Owner()
    with attributes_replaced([(owner, "act", lambda: "replaced")]):
        assert owner.act() == "replaced"
    assert owner.act() == "method"
    assert vars(owner) == {}


def test_a_method_is_that_of_the_class_again_after_an_error() -> None:
    owner = Owner()
    with pytest.raises(ZeroDivisionError), attributes_replaced([(owner, "act", lambda: 1 / 0)]):
        owner.act()
    assert owner.act() == "method"
    assert vars(owner) == {}


def test_an_attribute_of_the_instance_gets_its_value_back_also_if_it_is_replaced_twice() -> None:
    owner = Owner()
    vars(owner)["act"] = users = lambda: "users"
    with attributes_replaced([(owner, "act", lambda: "one"), (owner, "act", lambda: "two")]):
        assert owner.act() == "two"
    assert vars(owner) == {"act": users}
