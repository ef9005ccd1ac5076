"""Runs a replacement beside its original on random data, and compares results and state."""

import contextlib
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from torch.utils._pytree import tree_iter

from exploy.capture.recording import plain_torch
from exploy.comparison import absolute_error, difference
from exploy.environment.substitutes import Substitute
from exploy.environment.tensor_copies import cpu_copy
from exploy.errors import SubstituteError
from exploy.live.geometry import has_memory
from exploy.live.location import definition, raising_line
from exploy.live.object_graph import is_a, walk
from exploy.live.python_values import PythonValues, same_value
from exploy.live.snapshot import ProtectUnseen, Snapshot
from exploy.live.substituted import substituted
from exploy.verify.call_sequences import Subject, read_by_replacement, subjects_of, varied, with_random_arguments
from exploy.verify.watched_calls import WatchedCall

_SEQUENCES = 5  # the first with the values found

Values = dict[str, Any]


@dataclass
class Trial:
    """What was compared of a substitute: the number of calls, and the largest difference."""

    substitute: Substitute
    comparisons: int = 0
    largest_error: float = 0.0


@dataclass
class _Start:
    """The state in which a sequence of calls starts: other values of tensors, and calls of the original before it."""

    values: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    calls: list[WatchedCall] = field(default_factory=list)

    def make(self) -> None:
        """Change the state of the live objects. An error ends the calls.

        The values are set once more after the calls: otherwise, a function that copies from one tensor to another has
        nothing left to do.
        """
        self._set_values()
        with contextlib.suppress(Exception):
            for call in self.calls:
                args, kwargs = call.copied_arguments()
                call.function(*args, **kwargs)
        self._set_values()

    def _set_values(self) -> None:
        with torch.inference_mode():  # allows writing to inference tensors and to others
            for tensor, value in self.values:
                tensor.copy_(value)


@dataclass
class _Run:
    """What a sequence of calls has returned and written to its arguments, what it left, and the error that ended it.

    `visible` is the number of calls whose effect was seen: they returned something, or changed arguments or state.
    `made` are paths at which there was None before, and something afterwards: what is made when it is first used.
    """

    results: list[Values] = field(default_factory=list)
    state: Values = field(default_factory=dict)
    error: Exception | None = None
    visible: int = 0
    made: set[str] = field(default_factory=set)


def try_substitute(substitute: Substitute, calls: list[WatchedCall]) -> Trial:
    """Compare a replacement with its original: sequences of the watched calls, with random tensors.

    Floats that the calls get and that the replacement reads are varied around those found, in each sequence anew.
    Results, what is written to arguments, and the state of objects among the arguments must be the same but for
    rounding. Where the original raises, a sequence ends. All changes are undone.

    Args:
        substitute: The substitute.
        calls: Its calls, as `watch_calls()` notes them; at least one.

    Raises:
        SubstituteError: If the replacement differs, raises, or nothing could be compared.
    """
    trial, generator = Trial(substitute), torch.Generator().manual_seed(0)
    errors = [error for subject in subjects_of(substitute, calls) for error in _try(subject, generator, trial)]
    if not trial.comparisons:
        reason = (
            f"the original raised {type(errors[0]).__name__} ({errors[0]})"
            if errors
            else "it returns nothing, and changes nothing that can be seen"
        )
        pair = substitute.pairs[0]
        raise SubstituteError(
            f"{definition(pair.replacement)}: {substitute.replacement_name} could not be compared with "
            f"{substitute.name} ({definition(pair.original)}): {reason}. Substitute a function that returns tensors."
        )
    return trial


def _try(subject: Subject, generator: torch.Generator, trial: Trial) -> list[Exception]:
    """Compare sequences of calls, and return the errors of the original."""
    errors = []
    snapshot = Snapshot(subject.roots)
    with snapshot, plain_torch(), ProtectUnseen(snapshot), snapshot.gradient_mode():
        read = read_by_replacement(subject)
        snapshot.restore()
        for sequence in range(_SEQUENCES):
            calls, start = subject.sequence(generator), _Start()
            if sequence > 0:
                calls = [with_random_arguments(call, generator) for call in calls]
                start.values = [(tensor, varied(tensor, generator)) for tensor in read]
                earlier = subject.random_calls(sequence, generator)
                start.calls = [with_random_arguments(call, generator) for call in earlier]
            expected, got = (_run(subject, calls, start, snapshot, is_replaced) for is_replaced in (False, True))
            _compare(subject, calls, expected, got, trial)
            errors += [expected.error] if expected.error is not None else []
    return errors


def _run(
    subject: Subject,
    calls: list[WatchedCall],
    start: "_Start",
    snapshot: Snapshot,
    is_replaced: bool,
) -> _Run:
    run, item = _Run(), subject.substitute
    snapshot.restore()
    start.make()
    before = _state(subject.roots, item.unread)
    with substituted([item] if is_replaced else [], among=subject.instances):
        for call in calls:
            args, kwargs = call.copied_arguments()
            given = _tensors_among(args, kwargs)
            try:
                if item.prepare is not None:
                    item.prepare(*args, **kwargs)
                result = call.function(*args, **kwargs)
            except Exception as error:
                run.error = error
                break
            returned, left = _values_of("result", result, subject, call), _tensors_among(args, kwargs)
            run.results.append(returned | left)
            run.visible += bool(returned) or _has_changed(given, left)
    run.state = _state(subject.roots, item.unread)
    run.made = {path for path, value in run.state.items() if value is not None and before.get(path, 0) is None}
    if _has_changed(before, run.state):
        run.visible = len(run.results)
    return run


def _tensors_among(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Values:
    tensors = [cpu_copy(value) for value in tree_iter((args, kwargs)) if isinstance(value, torch.Tensor)]
    return {f"argument {index}": value for index, value in enumerate(tensors)}


def _has_changed(before: Values, after: Values) -> bool:
    return any(path not in before or not _is_equal(before[path], value) for path, value in after.items())


def _is_equal(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return torch.equal(one, two)
    return same_value(one, two)


def _values_of(label: str, result: Any, subject: Subject, call: WatchedCall) -> Values:
    """The tensors and plain values in a result, by label; an object with a tensor `torch` is that tensor."""
    if result is None or any(result is item for item in subject.roots.values()):
        return {}
    if isinstance(result, torch.Tensor):
        return {label: cpu_copy(result)}
    if is_a(result, bool | int | float | str):
        return {label: result}
    if is_a(result, dict | list | tuple):
        items = result.items() if isinstance(result, dict) else enumerate(result)
        parts = [_values_of(f"{label}[{key!r}]", item, subject, call) for key, item in items]
        return {name: value for part in parts for name, value in part.items()}
    tensor = getattr(result, "torch", None)  # such as that of Isaac Lab's ProxyArray
    found = {label: cpu_copy(tensor)} if isinstance(tensor, torch.Tensor) else _state({label: result})
    if not found:
        _refuse(subject, f"it returns {type(result).__name__}, which cannot be compared", [call])
    return found


def _state(roots: dict[str, object], unread: tuple[str, ...] = ()) -> Values:
    """The tensors and plain values that objects lead to, by path, but for attributes of some names."""
    tensors = [(path, item) for path, item in walk(roots) if isinstance(item, torch.Tensor) and has_memory(item)]
    values = {**PythonValues(roots).values, **{path: cpu_copy(item) for path, item in tensors}}
    return {path: value for path, value in values.items() if path.rpartition(".")[2] not in unread}


def _compare(subject: Subject, calls: list[WatchedCall], expected: _Run, got: _Run, trial: Trial) -> None:
    if got.error is not None and len(got.results) < len(expected.results):
        what = f"{type(got.error).__name__} ({got.error}) was raised at {raising_line(got.error)}"
        _refuse(subject, what, calls[: len(got.results) + 1], got.error)
    for index, (one, two) in enumerate(zip(expected.results, got.results, strict=False)):
        if one.keys() != two.keys():
            what = f"it returned {', '.join(two) or None}, expected {', '.join(one) or None}"
            _refuse(subject, what, calls[: index + 1])
        for label, value in one.items():
            what = f"{label} in call {index} of a sequence"
            _require_same(subject, what, value, two[label], trial, calls[: index + 1])
    trial.comparisons += expected.visible
    if expected.error is None and got.error is None:
        for path in (path for path in expected.state if path in got.state and path not in expected.made | got.made):
            what = f"{path} after a sequence of calls"
            _require_same(subject, what, expected.state[path], got.state[path], trial, calls)


def _require_same(subject: Subject, what: str, expected: Any, got: Any, trial: Trial, calls: list[WatchedCall]) -> None:
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor):
        if not (_is_close(expected, got) or same_value(expected, got)):
            _refuse(subject, f"{what} is {got!r}, expected {expected!r}", calls)
        return
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        described = [f"{item.dtype} of shape {tuple(item.shape)}" for item in (got, expected)]
        _refuse(subject, f"{what} is {described[0]}, expected {described[1]}", calls)
    one, two = _array(expected), _array(got)
    tolerance = _rounding(expected.dtype)
    found = difference(one, two, tolerance, tolerance, by_largest=True)
    error = float(absolute_error(one, two).max(initial=0.0))
    if found is not None:
        _refuse(subject, f"{what}: {found} (largest difference {error:.3g})", calls)
    trial.largest_error = max(trial.largest_error, error)


def _is_close(expected: Any, got: Any) -> bool:
    are_floats = isinstance(expected, float) and isinstance(got, float)
    return are_floats and bool(np.isclose(expected, got, rtol=1e-9, atol=1e-12, equal_nan=True))


def _rounding(dtype: torch.dtype) -> float:
    """Some units in the last place; fewer of those of half precision, which are large."""
    if not dtype.is_floating_point:
        return 0.0
    precision = torch.finfo(dtype).eps
    return precision * (64 if precision < 1e-6 else 8)


def _array(tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _refuse(subject: Subject, what: str, calls: list[WatchedCall], cause: Exception | None = None) -> NoReturn:
    """Raise an error about the last of some calls, with the lines of what was called before."""
    item = subject.substitute
    called = list(dict.fromkeys(call.name for call in reversed(calls)))
    pairs = sorted((pair for pair in item.pairs if pair.name in called), key=lambda pair: called.index(pair.name))
    pair = pairs[0] if pairs else item.pairs[0]
    method = f" in {calls[-1].name}" if item.owner is not None else ""
    before = [definition(other.replacement) for other in pairs[1:]]
    after = f" Called before: {', '.join(before)}." if before else ""
    raise SubstituteError(
        f"{definition(pair.replacement)}: {item.replacement_name} does not do what {item.name} does{method} "
        f"({definition(pair.original)}): {what}.{after} Correct the replacement, or do not add it. It was not used."
    ) from cause
