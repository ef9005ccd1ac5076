"""Views are found by address and expressed as slices and reshapes, which are aliases and never copies."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import fx

from exploy.capture.views import InexpressibleView, emit_view, flat_extent_needed
from exploy.live.geometry import Geometry


@st.composite
def bases(draw) -> torch.Tensor:
    """A dense tensor with its dimensions in any memory order."""
    sizes = draw(st.lists(st.integers(1, 4), max_size=3))
    order = draw(st.permutations(range(len(sizes))))
    count = int(torch.tensor(sizes).prod()) if sizes else 1
    return torch.arange(count).reshape(sizes).permute(*order) if sizes else torch.tensor(7)


@st.composite
def views(draw, base: torch.Tensor, odd_strides: bool = True) -> torch.Tensor:
    """A view of a tensor, with steps, selections, transpositions, and new and expanded dimensions."""
    view = base
    for _ in range(draw(st.integers(0, 4))):
        if view.dim() == 0:
            break
        dim = draw(st.integers(0, view.dim() - 1))
        kind = draw(st.sampled_from(["slice", "select", "unsqueeze", "transpose", "expand", "diagonal"]))
        if kind == "slice":
            start = draw(st.integers(0, view.shape[dim] - 1))
            stop = draw(st.integers(start + 1, view.shape[dim]))
            view = view[(slice(None),) * dim + (slice(start, stop, draw(st.integers(1, 2)) if odd_strides else 1),)]
        elif kind == "select":
            view = view.select(dim, draw(st.integers(0, view.shape[dim] - 1)))
        elif kind == "unsqueeze":
            view = view.unsqueeze(dim)
        elif kind == "transpose":
            view = view.transpose(dim, draw(st.integers(0, view.dim() - 1)))
        elif kind == "expand" and view.shape[dim] == 1:
            view = view.expand([3 if other == dim else -1 for other in range(view.dim())])
        elif kind == "diagonal" and odd_strides and view.dim() >= 2:
            view = view.diagonal()
    return view


def emitted(base: torch.Tensor, base_geometry: Geometry, view: torch.Tensor) -> torch.Tensor:
    graph = fx.Graph()
    graph.output(emit_view(graph, graph.placeholder("base"), base_geometry, Geometry.of(view)))
    result: torch.Tensor = fx.GraphModule({}, graph)(base)
    return result


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_a_view_of_a_dense_tensor_is_expressed_as_an_alias_of_it(data):
    base = data.draw(bases())
    view = data.draw(views(base, odd_strides=False))
    result = emitted(base, Geometry.of(base), view)
    assert torch.equal(result, view)
    assert result.data_ptr() == view.data_ptr()


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_any_view_can_be_cut_from_a_flat_buffer_that_is_long_enough(data):
    base = data.draw(bases())
    view = data.draw(views(base))
    start = Geometry.of(base).start
    length = max(flat_extent_needed(Geometry.of(tensor), start) for tensor in (base, view))
    flat = torch.zeros(length, dtype=base.dtype)
    flat[: base.numel()] = base.as_strided((base.numel(),), (1,))
    result = emitted(flat, Geometry(start, (length,), (1,), base.dtype), view)
    assert torch.equal(result, view)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.data())
def test_overlap_is_having_an_element_in_common(data):
    base = data.draw(bases())
    first, second = data.draw(views(base)), data.draw(views(base))
    assume(first.numel() and second.numel())
    in_common = set(first.flatten().tolist()) & set(second.flatten().tolist())
    assert Geometry.of(first).overlaps(Geometry.of(second)) == bool(in_common)
    within = set(second.flatten().tolist()) <= set(first.flatten().tolist())
    assert Geometry.of(first).contains(Geometry.of(second)) == within


def test_interleaved_columns_do_not_overlap():
    buffer = torch.zeros(4, 6)
    left, right = Geometry.of(buffer[:, :3]), Geometry.of(buffer[:, 3:])
    assert not left.overlaps(right)
    assert left.overlaps(Geometry.of(buffer[2]))


def test_steps_of_the_last_dimension_are_expressed_as_steps():
    base = torch.arange(15).reshape(3, 5)
    for view in (base[:, ::2], base[1, 1::3], base.view(-1)[::4]):
        assert torch.equal(emitted(base, Geometry.of(base), view), view)


def test_memory_read_as_another_type_cannot_be_expressed():
    values = torch.zeros(4)
    with pytest.raises(InexpressibleView, match="int32"):
        emitted(values, Geometry.of(values), values.view(torch.int32)[1:])


def test_expanded_tensors_repeat_elements():
    assert Geometry.of(torch.zeros(1).expand(3)).repeats_elements
    assert not Geometry.of(torch.zeros(3, 2).T).repeats_elements
