"""TensorProxy: a tensor in separate parts that can be used like one tensor."""

import copy
import operator
import pickle
import warnings
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from exploy.errors import ComponentError
from exploy.exporter.core.tensor_proxy import TensorProxy, args_to_tensor

BATCH, BODIES = 2, 3
reproducible = settings(derandomize=True, deadline=None, max_examples=400)


def numbered(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.arange(1, 1 + torch.Size(shape).numel(), dtype=dtype).reshape(shape)


@pytest.fixture
def body_pos() -> torch.Tensor:
    return numbered(BATCH, BODIES, 4)


@pytest.fixture
def proxy(body_pos: torch.Tensor) -> TensorProxy:
    return TensorProxy(body_pos, split_dim=1)


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def outcome(action: Callable[[], Any]) -> Any:
    """The result of an action, or the type of the exception that it raises. Deprecated forms of indices are allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return action()
        except Exception as error:
            return type(error)


def assert_same_outcome(actual: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
        assert type(actual) is torch.Tensor
    else:
        assert type(actual) is type(expected)
        assert actual == expected


# -- generated tensors and indices ------------------------------------------------------------------------


@st.composite
def mostly(draw: st.DrawFn, usual: st.SearchStrategy[Any], unusual: st.SearchStrategy[Any]) -> Any:
    return draw(unusual if draw(st.integers(1, 20)) == 10 else usual)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Tensors of one to four dimensions, including empty and non-contiguous tensors."""
    size = mostly(st.sampled_from([3, 2, 1, 4]), st.just(0))
    shape = draw(st.lists(size, min_size=1, max_size=4))
    return numbered(*shape).permute(draw(st.permutations(range(len(shape)))))


def integers_within(size: int) -> st.SearchStrategy[int]:
    return st.integers(-size, size - 1) if size else st.just(0)


def masks(*shape: int) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    count = int(np.prod(shape))
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return flags.map(lambda values: np.array(values, dtype=bool).reshape(shape))


def single_indices(size: int) -> st.SearchStrategy[Any]:
    """Indices that select one element of a dimension, sometimes out of range."""
    number = mostly(integers_within(size), st.sampled_from([size, -size - 1]))
    form = st.sampled_from([int, int, int, np.int64, np.int16, torch.tensor, np.array])
    return mostly(st.builds(lambda make, value: make(value), form, number), st.just(2**70))


def slices(size: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-size - 1, size + 1)
    step = mostly(st.sampled_from([None, 1, 2, 3]), st.sampled_from([0, -1]))
    return st.just(slice(None)) | st.builds(slice, bound, bound, step)


def lists_of_indices(size: int, length: int) -> st.SearchStrategy[Any]:
    """Indices that list elements of a dimension; indices of the same `length` can be used together."""
    number = mostly(integers_within(size), st.just(size))
    flat = st.lists(number, min_size=length, max_size=length)
    nested = st.lists(flat, min_size=1, max_size=2)
    form_of_flat: list[Callable[[list[int]], Any]] = [
        list,
        tuple,
        lambda values: [np.int64(value) for value in values],
        lambda values: [np.uint8(value % size if size else 0) for value in values],
        lambda values: [torch.tensor(value) for value in values],
        lambda values: np.array(values, dtype=np.int8),
        lambda values: np.array(values, dtype=np.int64),
        lambda values: torch.tensor(values, dtype=torch.int64),
        lambda values: torch.tensor(values, dtype=torch.int32),
        lambda values: TensorProxy(torch.tensor(values, dtype=torch.int64), 0),
        lambda values: range(len(values)),
    ]
    form_of_nested: list[Callable[[list[list[int]]], Any]] = [list, np.array, torch.tensor]
    return st.one_of(
        st.builds(lambda make, values: make(values), st.sampled_from(form_of_flat), flat),
        st.builds(lambda make, values: make(values), st.sampled_from(form_of_nested), nested),
    )


def mask_indices(*sizes: int) -> st.SearchStrategy[Any]:
    """Masks over one or several dimensions, sometimes with the wrong size."""
    forms: list[Callable[[np.ndarray[Any, Any]], Any]] = [
        torch.from_numpy,
        torch.from_numpy,
        np.array,
        lambda mask: mask.tolist(),
        lambda mask: torch.from_numpy(mask).to(torch.uint8),
        lambda mask: mask.astype(np.uint8),
    ]
    fitting_or_not = mostly(masks(*sizes), masks(*(size + 1 for size in sizes)))
    return st.builds(lambda make, mask: make(mask), st.sampled_from(forms), fitting_or_not)


NO_DIM_ITEMS = st.sampled_from([None, None, None, True, False, torch.tensor(True)])
STRANGE_ITEMS = st.sampled_from([np.True_, 1.0, [1.0], "a", ["a"], [True, 1], [], {1}, 0, slice(None), Ellipsis])
FORMS = ("single", "single", "slice", "slice", "slice", "list", "mask", "masks", "ellipsis", "end")


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """All kinds of indices that torch allows for a tensor of this shape, and some invalid indices."""
    items: list[Any] = []
    length = draw(st.integers(1, 3))
    dim = 0
    while dim < len(shape):
        if draw(st.integers(1, 10)) == 5:
            items.append(draw(mostly(NO_DIM_ITEMS, STRANGE_ITEMS)))
        form = draw(st.sampled_from(FORMS))
        sizes = shape[dim : dim + 2] if form == "masks" else shape[dim : dim + 1]
        dim += len(sizes)
        if form == "single":
            items.append(draw(single_indices(sizes[0])))
        elif form == "slice":
            items.append(draw(slices(sizes[0])))
        elif form == "list":
            items.append(draw(lists_of_indices(sizes[0], length)))
        elif form in ("mask", "masks"):
            items.append(draw(mask_indices(*sizes)))
        elif form == "ellipsis":
            items.append(Ellipsis)
            dim += draw(st.integers(-1, len(shape) - dim))
        else:
            break
    if draw(st.integers(1, 10)) == 5:
        items.append(draw(mostly(NO_DIM_ITEMS, STRANGE_ITEMS)))
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def indices_of_one_dim(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Indices that index only one dimension."""
    dim = draw(st.integers(0, len(shape) - 1))
    item = draw(single_indices(shape[dim]) | lists_of_indices(shape[dim], draw(st.integers(1, 3))))
    before = draw(st.sampled_from([(slice(None),) * dim, (..., *(slice(None),) * dim)]))
    after = draw(st.sampled_from([(), (...,), (slice(None),) * (len(shape) - dim - 1)]))
    return (*before, item, *after)


@st.composite
def indexed_tensors(draw: st.DrawFn) -> tuple[torch.Tensor, TensorProxy, Any, Any]:
    """A plain tensor, a proxy of an equal tensor, and an index for each of them."""
    plain = draw(tensors())
    proxy = TensorProxy(copy.deepcopy(plain), draw(st.integers(-plain.ndim, plain.ndim - 1)))
    idx = draw(indices(tuple(plain.shape)) | indices_of_one_dim(tuple(plain.shape)))
    return plain, proxy, args_to_tensor(idx), idx


@st.composite
def values_for(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Values to write to a selection of this shape, including some that do not broadcast to it."""
    dims = [draw(st.sampled_from([size, size, 1])) for size in shape]
    leading_ones = [1] * draw(st.integers(0, 2))
    tensor = 1000 + numbered(*leading_ones, *dims[draw(st.integers(0, len(dims))) :])
    forms: list[Any] = [tensor, tensor, tensor.to(torch.float32), -5, -5.5, True, 1000 + numbered(7, 7)]
    if tensor.ndim:
        forms.append(TensorProxy(tensor, -1))
    return draw(st.sampled_from(forms))


class TestIndexing:
    @reproducible
    @given(indexed_tensors())
    def test_reads_what_the_tensor_reads_and_shares_memory_where_it_does(self, case):
        plain, proxy, plain_idx, idx = case
        expected, actual = outcome(lambda: plain[plain_idx]), outcome(lambda: proxy[idx])
        assert_same_outcome(actual, expected)
        if isinstance(expected, torch.Tensor) and expected.numel():
            assert same_memory(actual, proxy.to_tensor()) == same_memory(expected, plain)
            expected.fill_(-1)
            actual.fill_(-1)
            assert torch.equal(proxy.to_tensor(), plain)

    @reproducible
    @given(indexed_tensors(), st.data())
    def test_writes_what_the_tensor_writes(self, case, data):
        plain, proxy, plain_idx, idx = case
        selection = outcome(lambda: plain[plain_idx])
        shape = selection.shape if isinstance(selection, torch.Tensor) else ()
        value = data.draw(values_for(tuple(shape)))
        expected = outcome(lambda: operator.setitem(plain, plain_idx, args_to_tensor(value)))
        assert outcome(lambda: operator.setitem(proxy, idx, value)) == expected
        assert torch.equal(proxy.to_tensor(), plain)

    @pytest.mark.parametrize("split_dim", range(4))
    @pytest.mark.parametrize(
        "idx",
        [
            (torch.ones(2, 3, dtype=torch.uint8), 1),
            (torch.ones(2, 3, dtype=torch.bool), 1),
            (np.ones((2, 3), dtype=bool), 1),
            (..., np.ones((4, 3), dtype=bool), None, 0),
            (..., np.ones((3, 4), dtype=bool), 0),
            (..., np.array(1), 0),
            (..., [[True] * 4] * 3, 0),
            (..., 1, ..., 0),
            (1, ..., ...),
            (True, 1, [0, 1]),
            ([0, 1], 1, [0, 1]),
            ([0, 1], slice(None), 1, [0, 1]),
        ],
    )
    def test_counts_dimensions_as_torch_does(self, split_dim, idx):
        plain = numbered(2, 3, 4, 3)
        expected = outcome(lambda: plain[idx])
        assert_same_outcome(outcome(lambda: TensorProxy(plain, split_dim)[idx]), expected)

    @pytest.mark.parametrize("idx", [np.s_[:, 3], np.s_[:, -4], np.s_[:, [0, 3]], np.s_[:, [2**70]], np.s_[5, 1]])
    def test_what_is_out_of_range_is_refused_as_torch_refuses_it(self, proxy, body_pos, idx):
        with pytest.raises((IndexError, ValueError)) as expected:
            body_pos[idx]
        with pytest.raises(expected.type) as actual:
            proxy[idx]
        assert str(actual.value) == str(expected.value)

    def test_boolean_mask_selects_where_it_is_true(self, proxy, body_pos):
        mask = torch.tensor([False, False, True])
        assert torch.equal(proxy[:, mask], body_pos[:, 2:])
        assert torch.equal(proxy[:, mask.tolist()], body_pos[:, 2:])
        assert torch.equal(proxy[:, mask.numpy()], body_pos[:, 2:])
        assert torch.equal(TensorProxy(body_pos, 0)[torch.tensor([False, True])], body_pos[1:])

    def test_mask_may_be_a_proxy(self, proxy, body_pos):
        mask = body_pos > 7
        assert torch.equal(proxy[TensorProxy(mask, 1)], body_pos[mask])

    def test_compound_assignment_to_one_element_changes_the_tensor(self, proxy, body_pos):
        expected = body_pos.clone()
        expected[:, 1] += 1
        proxy[:, 1] += 1
        assert torch.equal(body_pos, expected)

    @pytest.mark.parametrize("chosen", [1, [0, 1]])
    def test_more_indices_than_dimensions_are_refused(self, proxy, chosen):
        with pytest.raises(IndexError, match="too many indices"):
            proxy[:, chosen, :, :]

    def test_items_cannot_be_deleted(self, proxy):
        with pytest.raises(TypeError):
            del proxy[0]


class TestSplitTensors:
    def test_are_one_for_each_element_of_the_split_dimension(self, proxy, body_pos):
        assert len(proxy.tensors) == BODIES
        for number, tensor in enumerate(proxy.tensors):
            assert torch.equal(tensor, body_pos[:, number])

    def test_are_the_same_objects_each_time(self, proxy):
        assert all(map(operator.is_, proxy.tensors, proxy.tensors))

    @pytest.mark.parametrize("number", [1, -2, np.int64(1), np.uint8(1)])
    def test_are_what_indexing_one_of_them_returns(self, proxy, number):
        split = proxy.tensors[1]
        assert proxy[:, number] is split
        assert proxy[:, number, :] is split
        assert proxy[:, number, ...] is split
        assert proxy[..., number, :] is split

    def test_are_counted_from_the_end_as_well(self, proxy):
        assert all(proxy[:, number - BODIES] is proxy.tensors[number] for number in range(BODIES))

    def test_are_what_iterating_over_the_split_dimension_gives(self, body_pos):
        proxy = TensorProxy(body_pos, split_dim=0)
        assert all(map(operator.is_, proxy, proxy.tensors))

    def test_cannot_be_exchanged(self, proxy):
        first = proxy.tensors[0]
        proxy.tensors[0] = torch.zeros(1)
        assert proxy.tensors[0] is first

    @pytest.mark.parametrize("split_dim", [0, 1, 2, -1, -2, -3])
    def test_may_be_split_along_any_dimension(self, body_pos, split_dim):
        proxy = TensorProxy(body_pos, split_dim)
        for actual, expected in zip(proxy.tensors, body_pos.unbind(split_dim), strict=True):
            assert torch.equal(actual, expected)

    def test_a_negative_dimension_counts_from_the_end(self, body_pos):
        proxy = TensorProxy(body_pos, split_dim=-2)
        assert proxy[:, 2] is proxy.tensors[2] and torch.equal(proxy[:, 2], body_pos[:, 2])
        proxy[:, 1] = -1.0
        assert (body_pos[:, 1] == -1).all() and (body_pos[:, 0] > 0).all()

    def test_share_memory_with_the_original_tensor(self, proxy, body_pos):
        body_pos[:, 2] = -1
        assert (proxy.tensors[2] == -1).all()
        proxy.tensors[0].fill_(-2)
        assert (body_pos[:, 0] == -2).all()
        assert proxy.to_tensor() is body_pos

    @pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
    def test_take_values_that_require_gradients(self, body_pos, mode):
        with mode():
            proxy = TensorProxy(body_pos, 1)
        action = torch.ones(4, dtype=torch.float64, requires_grad=True)
        proxy[:, 1] = 3 * action
        proxy[:, 1].sum().backward()
        assert action.grad is not None
        assert action.grad.tolist() == [3 * BATCH] * 4


class TestBadArguments:
    @pytest.mark.parametrize("tensor", [[1.0, 2.0], np.zeros(2), None])
    def test_no_tensor_is_refused(self, tensor):
        with pytest.raises(ComponentError, match=rf"needs a torch.Tensor, got {type(tensor).__name__}\. Pass"):
            TensorProxy(tensor, 0)

    def test_proxy_of_a_proxy_is_refused(self, proxy):
        with pytest.raises(ComponentError, match="got TensorProxy"):
            TensorProxy(proxy, 0)

    def test_tensor_without_dimensions_is_refused(self):
        with pytest.raises(ComponentError, match=r"at least one dimension, got a tensor with none.*Use the tensor"):
            TensorProxy(torch.tensor(1.0), 0)

    @pytest.mark.parametrize("error", [ComponentError, IndexError])
    @pytest.mark.parametrize("split_dim", [3, -4, 100])
    def test_dimension_out_of_range_is_refused_as_a_component_and_as_an_index(self, body_pos, split_dim, error):
        with pytest.raises(error, match=rf"from -3 to 2 .*shape \(2, 3, 4\), got {split_dim}\. Pass"):
            TensorProxy(body_pos, split_dim)

    @pytest.mark.parametrize("split_dim", [1.0, "1", None, True])
    def test_only_a_dimension_out_of_range_is_an_index_error(self, body_pos, split_dim):
        with pytest.raises(ComponentError) as caught:
            TensorProxy(body_pos, split_dim)
        assert not isinstance(caught.value, IndexError)

    @pytest.mark.parametrize("split_dim", [1.0, "1", None, True])
    def test_dimension_that_is_no_int_is_refused(self, body_pos, split_dim):
        with pytest.raises(ComponentError, match=rf"an int as split_dim, got .*{split_dim!r}\. Pass"):
            TensorProxy(body_pos, split_dim)


BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
]
BINARY_OF_INTEGERS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
IN_PLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]
IN_PLACE_OF_INTEGERS = [operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift]
UNARY = [operator.neg, operator.pos, operator.abs]

NOT_FOR_PROXIES = {
    *("__deepcopy__", "__reduce_ex__", "__setstate__"),  # copied by __reduce__
    "__format__",  # same as object.__format__, except for tensors without dimensions
    *("__div__", "__rdiv__", "__idiv__", "__long__", "__nonzero__"),  # Python 2 only
    *("__cuda_array_interface__", "__dlpack_c_exchange_api__"),  # __dlpack__ is used instead
    *("__torch_dispatch__", "__new__"),  # only for subclasses of Tensor
}


class TestOperators:
    @pytest.mark.parametrize(
        ("operate", "dtype"),
        [(each, torch.float64) for each in BINARY] + [(each, torch.int64) for each in BINARY_OF_INTEGERS],
    )
    def test_binary_ones_take_proxies_on_either_side(self, operate, dtype):
        plain = numbered(BATCH, BODIES, dtype=dtype)
        other = numbered(BODIES, dtype=dtype)
        proxy = TensorProxy(plain, 1)
        assert_same_outcome(operate(proxy, other), operate(plain, other))
        assert_same_outcome(operate(other, proxy), operate(other, plain))
        assert_same_outcome(operate(proxy, proxy), operate(plain, plain))
        assert_same_outcome(operate(proxy, 2), operate(plain, 2))
        assert_same_outcome(operate(2, proxy), operate(2, plain))

    def test_numpy_numbers_leave_the_result_to_the_proxy(self, proxy, body_pos):
        assert_same_outcome(np.float64(2) * proxy, 2 * body_pos)

    def test_matrix_product_takes_proxies_on_either_side(self, proxy, body_pos):
        weight = numbered(4, 3)
        assert_same_outcome(proxy @ weight, body_pos @ weight)
        assert_same_outcome(weight @ proxy, weight @ body_pos)

    @pytest.mark.parametrize(
        ("operate", "dtype"),
        [(each, torch.float64) for each in IN_PLACE] + [(each, torch.int64) for each in IN_PLACE_OF_INTEGERS],
    )
    def test_in_place_ones_change_the_tensor_and_keep_the_proxy(self, operate, dtype):
        for other in (2, numbered(BODIES, dtype=dtype), TensorProxy(numbered(BODIES, dtype=dtype), 0)):
            plain = numbered(BATCH, BODIES, dtype=dtype)
            proxy = TensorProxy(plain.clone(), 1)
            split = proxy[:, 1]
            assert operate(proxy, other) is proxy
            operate(plain, args_to_tensor(other))
            assert_same_outcome(proxy.to_tensor(), plain)
            assert_same_outcome(split, plain[:, 1])

    def test_in_place_change_of_a_plain_tensor_by_a_proxy_keeps_the_tensor(self, proxy, body_pos):
        plain = changed = body_pos.clone()
        changed += proxy
        assert changed is plain
        assert_same_outcome(plain, 2 * body_pos)

    @pytest.mark.parametrize("operate", UNARY)
    def test_unary_ones_act_on_the_tensor(self, proxy, body_pos, operate):
        assert_same_outcome(operate(proxy), operate(body_pos))

    def test_inversion_acts_on_the_tensor(self, body_pos):
        mask = body_pos > 7
        assert_same_outcome(~TensorProxy(mask, 1), ~mask)

    @pytest.mark.parametrize("operate", [operator.add, operator.iadd, operator.lt, operator.matmul])
    def test_operands_that_the_tensor_refuses_are_refused(self, proxy, body_pos, operate):
        assert outcome(lambda: operate(body_pos, "a")) is TypeError
        assert outcome(lambda: operate(proxy, "a")) is TypeError

    def test_operand_that_knows_what_to_do_is_asked(self, proxy):
        class Other:
            def __radd__(self, other: Any) -> str:
                return "asked"

        assert proxy + Other() == "asked"

    @pytest.mark.parametrize("convert", [bool, int, float, complex, operator.index])
    @pytest.mark.parametrize("shape", [(1, 1), (2, 1)])
    def test_conversion_to_a_number_needs_a_single_element(self, convert, shape):
        plain = numbered(*shape, dtype=torch.int64)
        assert_same_outcome(outcome(lambda: convert(TensorProxy(plain, 0))), outcome(lambda: convert(plain)))

    def test_every_special_method_of_tensors_is_there(self):
        of_tensors = {name for name in dir(torch.Tensor) if name.startswith("__")}
        lacking = {
            name
            for name in of_tensors - set(dir(object)) - NOT_FOR_PROXIES
            if not hasattr(TensorProxy, name)
            and name not in ("__dict__", "__annotations__", "__slotnames__")  # the last exists after pickling
        }
        assert not lacking


class TestActsAsTensor:
    def test_has_its_attributes(self, proxy, body_pos):
        assert (proxy.shape, proxy.dtype, proxy.device) == (body_pos.shape, body_pos.dtype, body_pos.device)
        assert (proxy.ndim, len(proxy), proxy.requires_grad) == (3, BATCH, False)

    def test_has_its_methods(self, proxy, body_pos):
        assert_same_outcome(proxy.sum(dim=1), body_pos.sum(dim=1))
        assert_same_outcome(proxy.view(-1), body_pos.view(-1))
        assert {"sum", "tensors"} <= set(dir(proxy))

    def test_its_methods_that_change_it_change_the_original(self, proxy, body_pos):
        proxy.mul_(0)
        assert not body_pos.any()

    def test_has_no_attributes_that_tensors_lack(self, proxy):
        with pytest.raises(AttributeError, match="no_such_attribute"):
            _ = proxy.no_such_attribute

    def test_attributes_cannot_be_set(self, proxy):
        with pytest.raises(AttributeError):
            proxy.requires_grad = True

    def test_iteration_is_over_the_first_dimension(self, proxy, body_pos):
        for actual, expected in zip(proxy, body_pos, strict=True):
            assert_same_outcome(actual, expected)
        assert_same_outcome(reversed(proxy), reversed(body_pos))

    def test_contains_its_elements(self, proxy):
        assert 5.0 in proxy
        assert -5.0 not in proxy

    @pytest.mark.parametrize(
        "function",
        [
            torch.sum,
            torch.zeros_like,
            lambda t: torch.cat([t, t], dim=1),
            lambda t: torch.stack((t, torch.zeros(BATCH, BODIES, 4, dtype=torch.float64))),
            lambda t: torch.where(t > 7, input=t, other=0.0),
            lambda t: torch.add(torch.ones(4, dtype=torch.float64), other=t),
            lambda t: torch.einsum("bij,bij->bi", t, t),
            lambda t: torch.nn.functional.linear(t, numbered(2, 4)),
            lambda t: torch.max(t, dim=1).values,
            lambda t: torch.as_tensor(t),
            lambda t: torch.utils.dlpack.from_dlpack(t),
            lambda t: numbered(BATCH, BODIES, 4).masked_fill(t > 3, 0),
        ],
    )
    def test_torch_functions_take_it(self, proxy, body_pos, function):
        assert_same_outcome(function(proxy), function(body_pos))

    def test_torch_functions_write_into_it(self, proxy, body_pos):
        torch.mul(body_pos, 0, out=proxy)
        assert not body_pos.any()

    def test_plain_tensors_take_it_as_a_value(self, proxy, body_pos):
        plain = torch.zeros_like(body_pos)
        plain[...] = proxy
        assert torch.equal(plain, body_pos)

    def test_is_no_instance_of_tensor(self, proxy):
        assert not isinstance(proxy, torch.Tensor)

    def test_numpy_sees_the_memory_of_the_tensor(self, proxy, body_pos):
        array = np.asarray(proxy)
        array[:] = 7
        assert (body_pos == 7).all()
        assert np.asarray(proxy, dtype=np.float32).dtype == np.float32
        assert not np.shares_memory(np.array(proxy, copy=True), array)
        assert np.shares_memory(np.from_dlpack(proxy), array)
        assert_same_outcome(np.sqrt(proxy), body_pos.sqrt())

    def test_is_represented_with_its_tensor(self):
        assert repr(TensorProxy(torch.tensor([1, 2]), -1)) == "TensorProxy(tensor([1, 2]), split_dim=0)"
        assert f"{TensorProxy(torch.tensor([1, 2]), 0)}" == "TensorProxy(tensor([1, 2]), split_dim=0)"

    def test_is_hashed_by_identity(self, proxy, body_pos):
        assert {proxy: "found"}[proxy] == "found"
        assert hash(proxy) != hash(TensorProxy(body_pos, 1))
        assert weakref.ref(proxy)() is proxy


class TestCopies:
    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda proxy: pickle.loads(pickle.dumps(proxy))])
    def test_deep_ones_have_memory_of_their_own(self, proxy, body_pos, duplicate):
        twin = duplicate(proxy)
        assert type(twin) is TensorProxy
        assert torch.equal(twin.to_tensor(), body_pos)
        twin[:, 1] = 0
        assert body_pos.all()
        assert not twin.tensors[1].any()

    def test_deep_one_of_tensor_and_proxy_together_keeps_them_together(self, proxy, body_pos):
        tensor_twin, proxy_twin = copy.deepcopy((body_pos, proxy))
        assert proxy_twin.to_tensor() is tensor_twin

    def test_shallow_one_shares_the_tensor(self, proxy, body_pos):
        twin = copy.copy(proxy)
        assert twin is not proxy
        assert twin.to_tensor() is body_pos

    def test_unfinished_proxy_has_no_attributes(self):
        unfinished = TensorProxy.__new__(TensorProxy)
        for name in ("shape", "_base", "__setstate__"):
            assert not hasattr(unfinished, name)


Pair = namedtuple("Pair", ["first", "second"])


class TestArgsToTensor:
    def test_replaces_proxies_at_any_depth(self, proxy, body_pos):
        args = (proxy, [1, (proxy,)], {"key": [proxy]}, Pair(proxy, 2))
        converted = args_to_tensor(args)
        assert converted[0] is body_pos
        assert converted[1][1][0] is body_pos
        assert converted[2]["key"][0] is body_pos
        assert converted[3].first is body_pos

    @pytest.mark.parametrize(
        "args",
        [
            [1, "a", None],
            (1, [2, (3,)]),
            Pair(1, 2),
            torch.Size([1, 2]),
            OrderedDict(a=1),
            defaultdict(list, a=[1]),
            {1, 2},
            slice(1, 2),
            "text",
            3,
        ],
    )
    def test_leaves_everything_else_as_it_is(self, args):
        converted = args_to_tensor(args)
        assert converted == args
        assert type(converted) is type(args)

    def test_keeps_the_objects_in_a_sequence(self, body_pos):
        assert args_to_tensor([body_pos])[0] is body_pos

    def test_keeps_its_argument_as_it_is(self, proxy):
        args = {"key": proxy}
        args_to_tensor(args)
        assert args["key"] is proxy


class TestTracing:
    """A graph whose inputs are the split tensors depends only on the tensors that are used."""

    @staticmethod
    def traced(function: Callable[[], Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
        graph_module: torch.fx.GraphModule = make_fx(lambda *_: function(), tracing_mode="real", pre_dispatch=True)(
            *inputs
        )
        return graph_module

    @staticmethod
    def used_inputs(graph_module: torch.fx.GraphModule) -> list[int]:
        graph_module.graph.eliminate_dead_code()
        constants = [getattr(graph_module, str(n.target)) for n in graph_module.graph.nodes if n.op == "get_attr"]
        assert not any(constant.is_floating_point() for constant in constants), "a value of the proxy became a constant"
        inputs = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        return [number for number, node in enumerate(inputs) if node.users]

    def test_one_element_is_a_use_of_its_split_tensor_only(self, proxy, body_pos):
        graph_module = self.traced(lambda: proxy[:, 1] * 2, *proxy.tensors)
        assert self.used_inputs(graph_module) == [1]
        assert_same_outcome(graph_module(*(-1 * t for t in proxy.tensors)), -2 * body_pos[:, 1])

    def test_part_of_one_element_is_a_use_of_its_split_tensor_only(self, proxy):
        assert self.used_inputs(self.traced(lambda: proxy[0, 2, 1:] * 2, *proxy.tensors)) == [2]
        assert self.used_inputs(self.traced(lambda: proxy[[1, 0], -1, ..., None] * 2, *proxy.tensors)) == [2]

    @pytest.mark.parametrize("numbers", [[2, 0], (2, 0), range(0, 3, 2), np.array([-1, 0]), [np.int64(2), 0]])
    def test_list_of_elements_is_a_use_of_their_split_tensors_only(self, proxy, numbers):
        graph_module = self.traced(lambda: proxy[:, numbers, :], *proxy.tensors)
        assert self.used_inputs(graph_module) == [0, 2]

    def test_writing_one_element_is_a_write_to_its_split_tensor(self, proxy, body_pos):
        def write() -> Any:
            proxy[:, 1] = proxy[:, 0] + 1
            return proxy[:, 1] * 1

        graph_module = self.traced(write, *proxy.tensors)
        assert self.used_inputs(graph_module) == [0, 1]
        assert_same_outcome(graph_module(*proxy.tensors), body_pos[:, 0] + 1)
