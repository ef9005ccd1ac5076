"""Small matrices: inverses, solutions and factors, unrolled. ONNX has only their determinant and products."""

from typing import Any

import torch

aten = torch.ops.aten

_MAX_SIZE = 16


def cdist(x: torch.Tensor, y: torch.Tensor, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """Distances between all rows of two matrices."""
    return aten.linalg_vector_norm.default(x.unsqueeze(-2) - y.unsqueeze(-3), p, [-1])


def inv_ex(x: torch.Tensor, *, check_errors: bool = False) -> Any:
    """The inverse, and 0 for success. A singular matrix gives infinities or NaN, where torch raises an error."""
    if x.shape[-1] > _MAX_SIZE:
        return NotImplemented
    return _eliminated(x, torch.eye(x.shape[-1], dtype=x.dtype) + torch.zeros_like(x)), _success(x)


def inverse(x: torch.Tensor) -> Any:
    """The inverse alone."""
    found = inv_ex(x)
    return found if found is NotImplemented else found[0]


def solve_ex(x: torch.Tensor, y: torch.Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution z of x z = y, or of z x = y; then the factors of x, which nothing reads, and 0 for success."""
    if x.shape[-1] > _MAX_SIZE:
        return NotImplemented
    is_vector = y.dim() == 1 or (y.dim() == x.dim() - 1 and y.shape == x.shape[:-1])
    right = y.unsqueeze(-1) if is_vector else y
    found = _eliminated(x, right) if left else _eliminated(x.mT, right.mT).mT
    return found.squeeze(-1) if is_vector else found, x, _success(x), _success(x)


def solve(x: torch.Tensor, y: torch.Tensor, *, left: bool = True) -> Any:
    """The solution alone."""
    found = solve_ex(x, y, left=left)
    return found if found is NotImplemented else found[0]


def _success(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x[..., 0, 0], dtype=torch.int32)


def _eliminated(x: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Solve x z = right by elimination, with the largest pivot of each column."""
    size = x.shape[-1]
    numbers = torch.arange(size)
    both = torch.cat([x + torch.zeros_like(right[..., :1]), right + torch.zeros_like(x[..., :1])], -1)
    for column in range(size):
        below = both[..., column].abs().masked_fill(numbers < column, -1.0)
        is_pivot = (numbers == below.argmax(-1, keepdim=True)).unsqueeze(-1)
        is_current = (numbers == column).unsqueeze(-1)
        pivot_row = torch.where(is_pivot, both, 0.0).sum(-2, keepdim=True)
        swapped = torch.where(is_pivot, both[..., column : column + 1, :], both)
        row = pivot_row / pivot_row[..., column : column + 1]
        both = torch.where(is_current, row, swapped - swapped[..., column : column + 1] * row)
    return both[..., size:]


def cholesky_ex(x: torch.Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The triangular root, and 0 for success. NaN where a matrix has none, where torch raises an error."""
    size = x.shape[-1]
    if size > _MAX_SIZE:
        return NotImplemented
    numbers = torch.arange(size)
    columns: list[torch.Tensor] = []
    for index in range(size):
        rest = x[..., index]
        for column in columns:
            rest = rest - column * column[..., index : index + 1]
        columns.append((rest / rest[..., index : index + 1].sqrt()).masked_fill(numbers < index, 0.0))
    root = torch.stack(columns, -1)
    return root.mT if upper else root, _success(x)


def cholesky(x: torch.Tensor, *, upper: bool = False) -> Any:
    """The triangular root alone."""
    found = cholesky_ex(x, upper=upper)
    return found if found is NotImplemented else found[0]


def cholesky_solve(y: torch.Tensor, root: torch.Tensor, upper: bool = False) -> Any:
    """The solution of a system whose matrix has this root."""
    if root.shape[-1] > _MAX_SIZE:
        return NotImplemented
    lower = root.mT if upper else root
    return _substituted(lower.mT, _substituted(lower, y, False, False), True, False)


def solve_triangular(
    x: torch.Tensor, y: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """The solution of a triangular system."""
    if x.shape[-1] > _MAX_SIZE:
        return NotImplemented
    if not left:
        return _substituted(x.mT, y.mT, not upper, unitriangular).mT
    return _substituted(x, y, upper, unitriangular)


def _substituted(x: torch.Tensor, y: torch.Tensor, upper: bool, unitriangular: bool) -> torch.Tensor:
    size = x.shape[-1]
    rows: dict[int, torch.Tensor] = {}
    for index in reversed(range(size)) if upper else range(size):
        rest = y[..., index, :]
        for other, row in rows.items():
            rest = rest - x[..., index, other : other + 1] * row
        rows[index] = rest if unitriangular else rest / x[..., index, index : index + 1]
    return torch.stack([rows[index] for index in range(size)], -2)


FORMS = {
    aten._cdist_forward.default: cdist,
    aten.cdist.default: cdist,
    aten.linalg_inv_ex.default: inv_ex,
    aten.linalg_inv.default: inverse,
    aten.inverse.default: inverse,
    aten._linalg_solve_ex.default: solve_ex,
    aten.linalg_solve.default: solve,
    aten.linalg_cholesky_ex.default: cholesky_ex,
    aten.linalg_cholesky.default: cholesky,
    aten.cholesky.default: cholesky,
    aten.cholesky_solve.default: cholesky_solve,
    aten.linalg_solve_triangular.default: solve_triangular,
}
