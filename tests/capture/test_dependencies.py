"""The sources of each result of a graph, through views and in-place writes."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from exploy.capture.dependencies import sources_of_results


def sources(function, *arguments):
    graph = make_fx(function)(*arguments).graph
    found = sources_of_results(graph, lambda node: node.op == "placeholder")
    return [{node.name.removesuffix("_1") for node in nodes} for nodes in found]


A, B = torch.ones(3), torch.ones(3)


def test_results_depend_on_what_they_are_computed_from():
    assert sources(lambda a, b: (a + 1, a * b, torch.zeros(3)), A, B) == [{"a"}, {"a", "b"}, set()]


def test_a_write_in_place_reaches_later_readers_only():
    def function(a, b):
        buffer = a.clone()
        before = buffer * 2
        buffer.add_(b)
        return before, buffer * 2

    assert sources(function, A, B) == [{"a"}, {"a", "b"}]


def test_a_write_through_a_view_reaches_the_whole():
    def function(a, b):
        buffer = torch.zeros(2, 3)
        buffer[0].copy_(a)
        other = buffer[1]
        other.mul_(b)
        return buffer.sum(), other + 1

    assert sources(function, A, B) == [{"a", "b"}, {"a", "b"}]


def test_parts_of_a_split_share_their_memory():
    def function(a, b):
        buffer = torch.cat([a, a])
        first, second = buffer.chunk(2)
        first.copy_(b)
        return first + 0, second + 0, a + 0

    first, second, untouched = sources(function, A, B)
    assert first == {"a", "b"}
    assert "a" in second
    assert untouched == {"a"}


def test_what_is_overwritten_as_a_whole_no_longer_depends_on_what_it_was():
    def function(a, b):
        buffer = a.clone().view(1, 3)
        before = buffer * 2
        buffer[:] = b
        other = a.clone()
        other.view(3, 1).transpose(0, 1).fill_(1.0)
        return before, buffer + 0, other + 0

    assert sources(function, A, B) == [{"a"}, {"b"}, set()]


def test_what_is_overwritten_in_part_or_by_itself_still_depends_on_what_it_was():
    def function(a, b):
        part = a.clone()
        part[1:] = b[1:]
        turned = torch.stack([a, a, a])
        turned[:] = turned.t() * b
        every_second = a.clone()
        every_second[::2] = 0.0
        return part + 0, turned + 0, every_second + 0

    assert sources(function, A, B) == [{"a", "b"}, {"a", "b"}, {"a"}]
