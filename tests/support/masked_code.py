"""Code with masks and positions that depend on inputs, as people write it, and an environment that runs it."""

import contextlib
import logging
import warnings
from collections.abc import Callable

import torch

from exploy.exporter.core.components import Input, Memory, Output
from tests.support.environments import TestEnvironment

_log = logging.getLogger(__name__)


class Masked(TestEnvironment):
    """Observes what a function computes from two Inputs and some Memories; several robots, two sub-steps."""

    def __init__(self, function: Callable[["Masked"], torch.Tensor], robots: int = 3):
        self.batch_size = robots
        super().__init__(decimation=2)
        self.function = function
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(robots, 4, generator=generator)
        self.y = torch.randn(robots, 4, generator=generator)
        self.weights = torch.randn(4, 4, generator=generator)
        self.buffer = torch.zeros(robots, 4)
        self.ring = torch.zeros(5, robots, 4)
        self.pointer = torch.zeros((), dtype=torch.long)
        self.count = torch.zeros(robots, dtype=torch.long)
        self.info: dict[str, int] = {}
        self.resets = 0
        self.context_manager().add_components(
            [
                Input("x", lambda: self.x),
                Input("y", lambda: self.y),
                Memory("buffer", lambda: self.buffer),
                Memory("ring", lambda: self.ring),
                Memory("pointer", lambda: self.pointer),
                Memory("count", lambda: self.count),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self) -> torch.Tensor:
        return self.function(self)

    def move(self) -> None:
        self.x += 3 * self.noise(self.x)
        self.y += 3 * self.noise(self.y)

    def reset_idx(self, ids: torch.Tensor) -> None:
        """In the manner of legged_gym."""
        if len(ids) == 0:
            return
        self.buffer[ids] = self.x[ids] / (1 + self.y[ids].norm(dim=-1, keepdim=True))
        self._restart(ids)

    def _restart(self, ids: torch.Tensor) -> None:
        self.count[ids] = 0

    def count_resets(self, ids: torch.Tensor) -> None:
        self.count[ids] = 0
        self.resets += 1


def read_and_write(env: Masked) -> torch.Tensor:
    z, mask = env.x.clone(), env.x > 0
    z[mask] = torch.sqrt(z[mask]) * 2 + env.y[mask]
    return z


def steps_between(env: Masked) -> torch.Tensor:
    z, mask = env.x.clone(), env.y[:, 0] > 0
    chosen = z[mask]
    turned = torch.cross(chosen[:, 1:], env.y[mask][:, 1:], dim=-1)
    turned[:, 0] += 1.0
    z[mask] = torch.cat([chosen[:, :1], turned], dim=-1)
    z[mask] = torch.nn.functional.linear(z[mask], env.weights)
    return z


def parts_of_rows(env: Masked) -> torch.Tensor:
    z, mask = env.x.clone(), env.y[:, 0] > 0
    z[mask] += env.y[mask]
    z[mask, 0] *= 2
    z[mask, 1:] = env.y[mask, 1:].abs()
    return z


def mask_written_twice(env: Masked) -> torch.Tensor:
    z = env.x.clone()
    z[z < 0] = -z[z < 0]
    return z + env.y


def columns(env: Masked) -> torch.Tensor:
    z, mask = env.x.clone(), env.y[0] > 0
    z[:, mask] = z[:, mask] * 2 + 1
    z[:, mask] -= 0.5
    return z


def ids_of_nonzero(env: Masked) -> torch.Tensor:
    z = env.x.clone()
    ids = (env.y[:, 0] > 0).nonzero(as_tuple=False).flatten()
    z[ids] = 0.5
    z[ids, 1] = env.y[ids, 0] + 1
    env.buffer[ids] = env.x[ids]
    others = torch.where(env.y[:, 1] > 0)[0]
    env.count[others] += 1
    z[others, 2:] = env.y[others][:, 2:].clamp(-1, 1)
    rows, cols = torch.nonzero(env.y > 1, as_tuple=True)
    z[rows, cols] = env.x[rows, cols].tanh()
    return z + env.buffer + env.count[:, None]


def divided_integers(env: Masked) -> torch.Tensor:
    count, mask = (env.x * 5).long(), (env.y * 2).long() != 0
    divisors = (env.y * 2).long()
    count[mask] = count[mask] // divisors[mask]
    return count.float()


def reduced(env: Masked) -> torch.Tensor:
    mask = env.x > 0
    first = torch.zeros(4) + env.y[env.y[:, 0] > 0].sum(0)
    total = env.x[mask].sum() + env.x[mask].max().clamp(min=-1) + torch.nan_to_num(env.y[mask].mean())
    return env.x * total + first + (env.y[mask] > 1).any()


def branches(env: Masked) -> torch.Tensor:
    flag = env.y[:, 0] > 0.3
    if flag.any():
        env.buffer[flag] = env.x[flag]
        env.count[flag] = 0
    ids = (env.y[:, 1] > 0.5).nonzero(as_tuple=False).flatten()
    if len(ids) > 0:
        env.buffer[ids] = 0.1
    if ids.numel():
        env.buffer[ids, 0] = 7.0
    if ids.shape[0] != 0 and env.decimation > 1:
        env.buffer[ids, 1] = 8.0
    if flag.sum() > 0:
        scaled = env.x * 2
        scaled += 1
        env.buffer[flag & (env.x[:, 0] > 0)] = 1.0
        env.buffer.masked_fill_(flag[:, None], 3.0)
        env.buffer[flag] += scaled[flag]
    env.count += 1
    env.reset_idx((env.y[:, 2] > 0).nonzero(as_tuple=False).flatten())
    return env.buffer + env.count[:, None]


def one_flag(env: Masked) -> torch.Tensor:
    flag = env.y[0, 0] > 0
    if flag:
        env.buffer[flag] = 2.0
    return env.buffer + env.x


def ring_buffer(env: Masked) -> torch.Tensor:
    env.pointer[...] = (env.pointer + 1) % 5
    env.ring[env.pointer] = env.x
    env.ring[env.pointer, :, 0] += 1
    oldest = env.ring[(env.pointer + 1) % 5]
    columns_first = env.ring.transpose(0, 1)
    part = env.ring[..., env.pointer % 4].sum(0)
    return env.ring[env.pointer - 5] + oldest + columns_first[:, env.pointer] + part[:, None] + env.y


@torch.jit.script
def root_of_positive(x: torch.Tensor, scale: float) -> torch.Tensor:
    result = torch.full_like(x, scale)
    mask = x > 0
    result[mask] = torch.sqrt(x[mask])
    return result


@torch.jit.script
def scripted_mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean()


def scripted(env: Masked) -> torch.Tensor:
    return root_of_positive(env.x, 2) * scripted_mean(env.x[env.y.abs() > 0.01])


def chosen_variable(env: Masked) -> torch.Tensor:
    side, flat = env.x.abs() + 0.1, env.y.abs() < 0.2
    if flat.any():
        other = side * 2
        side = torch.where(flat, other, side)
        side = torch.where(
            flat & (env.x > 0),
            other,
            side,
        )
    return side


def one_hot_rows(env: Masked) -> torch.Tensor:
    candidates = env.x[:, :, None] * env.y[:, None]
    largest = torch.nn.functional.one_hot(env.x.argmax(dim=-1), num_classes=4)
    rows = candidates[largest > 0.5, :].reshape(env.batch_size, 4)
    first = torch.nn.functional.one_hot(env.y[0].argmin(), num_classes=4)
    return rows + candidates[largest.bool()] + candidates[0][first == 1] + env.x[largest != 0][:, None]


FOLLOWED: dict[str, Callable[[Masked], torch.Tensor]] = {
    item.__name__: item
    for item in (
        branches,
        ids_of_nonzero,
        ring_buffer,
        read_and_write,
        steps_between,
        parts_of_rows,
        mask_written_twice,
        columns,
        divided_integers,
        reduced,
        one_flag,
        scripted,
        chosen_variable,
        one_hot_rows,
    )
}


def two_masks(env: Masked) -> torch.Tensor:
    z = env.x.clone()
    z[env.x > 0] = z[env.y > 0]  # refused
    return z


def changed_mask(env: Masked) -> torch.Tensor:
    z = env.x.clone()
    chosen = z[z > 0]
    z += 1
    z[z > 0] = chosen  # refused
    return z


def mask_changed_in_place(env: Masked) -> torch.Tensor:
    z, mask = env.x.clone(), env.x > 0
    chosen = z[mask]
    mask &= env.y > 0
    z[mask] = chosen  # refused
    return z


def across_rows(env: Masked) -> torch.Tensor:
    z = env.x.clone()
    z[env.y[:, 0] > 0] = z[env.y[:, 0] > 0].cumsum(0)  # refused
    return z


def across_integer_rows(env: Masked) -> torch.Tensor:
    z, mask = env.count.clone(), env.y[:, 0] > 0
    z[mask] = z[mask].flip(0)  # refused
    return z[:, None] * env.x


def number_of_rows(env: Masked) -> torch.Tensor:
    return env.x * len(env.x[env.x > 0])  # refused


def size_of_rows(env: Masked) -> torch.Tensor:
    return env.x * env.x[env.x > 0].shape[0]  # refused


def rows_as_result(env: Masked) -> torch.Tensor:
    return torch.add(torch.zeros(1), env.x[env.x > 0])[:4].reshape(1, 4)  # refused


def one_by_one(env: Masked) -> torch.Tensor:
    z = env.x.clone()
    for row in (env.y[:, 0] > 0).nonzero():  # refused
        z[row] = 0
    return z


def same_position_twice(env: Masked) -> torch.Tensor:
    z, ids = env.x.clone(), (env.y[:, 0] > 0).nonzero().flatten()
    z[ids // 2] = 3.0  # refused
    return z


def all_rows_as_values(env: Masked) -> torch.Tensor:
    z, mask = env.x.clone(), env.y[:, 0] > 0
    z[mask] = env.y[mask] + env.x  # refused
    return z


traced_mean = torch.jit.trace(lambda x: x.mean(), torch.ones(3))  # has no source that could be followed


def into_compiled_code(env: Masked) -> torch.Tensor:
    return env.x * traced_mean(env.x[env.x > 0])  # refused


def other_body(env: Masked) -> torch.Tensor:
    if (env.x > 0).any():
        env.resets = 3  # refused
    return env.x


def a_variable(env: Masked) -> torch.Tensor:
    mask, scale = env.x > 0, 1.0
    if mask.any():  # refused
        scale = 2.0
    return env.x * scale


def a_variable_chosen_by_another_mask(env: Masked) -> torch.Tensor:
    mask, side = env.x > 0, env.y * 2
    if mask.any():  # refused
        side = torch.where(env.y > 0, env.x, side)
    return side


def a_variable_of_another_shape(env: Masked) -> torch.Tensor:
    mask, side = env.x > 0, env.y[:1] * 2
    if mask.any():  # refused
        side = torch.where(mask, env.x, side)
    return side.expand(env.batch_size, 4)


def a_variable_chosen_the_other_way(env: Masked) -> torch.Tensor:
    mask, side = env.x > 0, env.y * 2
    if mask.any():  # refused
        side = torch.where(mask, side, env.x)
    return side


def a_chosen_number(env: Masked) -> torch.Tensor:
    mask, side = env.x[0, 0] > 0, 0.1
    if mask.any():  # refused
        side = torch.where(mask, env.y[0, 0], side)  # type: ignore[assignment]
    return env.x * side


def changed_one_hot_rows(env: Masked) -> torch.Tensor:
    largest = torch.nn.functional.one_hot(env.x.argmax(dim=-1), num_classes=4)
    largest *= (env.y > 0).long()
    return env.x[largest > 0].reshape(-1, 1) * env.x  # refused


def an_else(env: Masked) -> torch.Tensor:
    mask = env.x > 0
    if mask.any():  # refused
        env.buffer[mask] = 1
    else:
        env.buffer[:] = 0
    return env.buffer


def an_unmasked_write(env: Masked) -> torch.Tensor:
    mask = env.x > 0
    if mask.any():
        env.buffer[mask] = 1
        env.buffer[0, 0] = 3  # refused
    return env.buffer


def another_mask(env: Masked) -> torch.Tensor:
    mask = env.x > 0
    if mask.any():
        env.buffer[env.y > 0] = 3  # refused
    return env.buffer


def a_dictionary(env: Masked) -> torch.Tensor:
    if (env.x > 0).any():
        env.info["resets"] = 1  # refused
    return env.x


def a_function_that_counts(env: Masked) -> torch.Tensor:
    ids = (env.x[:, 0] > 0).nonzero().flatten()
    if len(ids) > 0:
        env.count_resets(ids)
    return env.x


def a_return(env: Masked) -> torch.Tensor:
    if (env.x > 0).any():
        return env.x * 2  # refused
    return env.x


def a_loop(env: Masked) -> torch.Tensor:
    while (env.x > 0).any():  # refused
        break
    return env.x


def more_than_two(env: Masked) -> torch.Tensor:
    ids = (env.x[:, 0] > 0).nonzero().flatten()
    if len(ids) > 2:  # refused
        env.buffer[ids] = 1
    return env.buffer


def a_caught_assert(env: Masked) -> torch.Tensor:
    try:
        assert (env.x > 0).all()  # refused
    except AssertionError:
        return -env.x
    return env.x


def positive(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        raise ValueError("negative")
    return x


def a_caught_error(env: Masked) -> torch.Tensor:
    with contextlib.suppress(ValueError):
        return positive(env.x)
    return -env.x


def view_of_a_position(env: Masked) -> torch.Tensor:
    env.ring[env.pointer].copy_(env.x)  # refused
    return env.x


def old_view_of_a_position(env: Masked) -> torch.Tensor:
    oldest = env.ring[env.pointer]  # refused
    env.ring[env.pointer] = env.x
    return oldest


REFUSED: dict[str, Callable[[Masked], torch.Tensor]] = {
    item.__name__: item
    for item in (
        two_masks,
        changed_mask,
        mask_changed_in_place,
        across_rows,
        across_integer_rows,
        number_of_rows,
        size_of_rows,
        one_by_one,
        same_position_twice,
        all_rows_as_values,
        into_compiled_code,
        other_body,
        a_variable,
        a_variable_chosen_by_another_mask,
        a_variable_of_another_shape,
        a_variable_chosen_the_other_way,
        a_chosen_number,
        changed_one_hot_rows,
        an_else,
        an_unmasked_write,
        another_mask,
        a_dictionary,
        a_return,
        a_loop,
        more_than_two,
        a_caught_assert,
        view_of_a_position,
        old_view_of_a_position,
    )
}


def asserted(env: Masked) -> torch.Tensor:
    assert not torch.isnan(env.x).any(), f"not a number: {env.x}"
    assert env.x.max().item() < 1e5
    if not torch.isfinite(env.x).all():
        raise ValueError("not finite")
    if torch.isnan(env.y).any():
        print("not a number", env.y)
        warnings.warn("not a number", stacklevel=1)
        _log.warning("not a number")
    torch._assert(env.y.abs().max() < 1e6, "too large")
    return env.x * 2 + env.y


def branch_that_prints_and_counts(env: Masked) -> torch.Tensor:
    if torch.isnan(env.y).any():  # refused
        print("not a number")
        env.resets += 1
    return env.x
