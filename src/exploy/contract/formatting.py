"""Formats the contract as text."""

from typing import Any

import numpy as np

from exploy.contract.document import Contract
from exploy.contract.parts import Port, UsedSubstitute


def format_rates(contract: Contract) -> str:
    """Format the tick rate and the policy rate."""
    if contract.hz is None:
        return f"policy every {contract.decimation} ticks" if contract.decimation > 1 else "policy at every tick"
    if contract.decimation == 1:
        return f"policy and ticks at {contract.hz:g} Hz"
    policy = f"{contract.hz / contract.decimation:g} Hz"
    return f"ticks at {contract.hz:g} Hz, policy every {contract.decimation} ticks ({policy})"


def format_elements(port: Port) -> str:
    """Format the names, limits, gains, frame and stop values of a port, where known."""
    parts = [", ".join(port.names)] if port.names else []
    if port.limits:
        parts.append(f"limits {_shown(port.limits)}")
    parts += [f"{name} {_shown(values)}" for name, values in (port.gains or {}).items()]
    if port.frame:
        parts.append(f"frame {port.frame}")
    if not port.finite:
        parts.append("may be infinite")
    if port.on_stop is not None:
        parts.append(f"on a stop {_shown(port.on_stop)}")
    return "; ".join(parts)


def format_terms(contract: Contract) -> dict[str, tuple[str, ...]]:
    """Format the terms of the observation with their slices, by what they belong to: "observation" or "obs.GROUP"."""
    terms: dict[str, tuple[str, ...]] = {}
    for term in contract.observation_terms:
        what = term.port or "observation"
        terms[what] = (*terms.get(what, ()), f"{term.name} [{term.start}:{term.stop}]")
    return terms


def format_shape(port: Port) -> str:
    """Format the shape of a port."""
    return ", ".join(map(str, port.shape)) or "scalar"


def format_substitute(item: UsedSubstitute) -> str:
    """Format what stands for what, and how it was compared."""
    compared = f"{item.comparisons} calls compared, largest difference {item.largest_error:.2g}"
    return f"{item.replacement} for {item.original} ({compared})"


def format_values(values: np.ndarray, most: int = 8) -> str:
    """The values of an array: "zeros", one number for all elements, or the first ones."""
    flat = values.reshape(-1)
    if not flat.size or not flat.any():
        return "zeros"
    if flat.size > 1 and (flat == flat[0]).all():
        return f"{_number(flat[0])} (all {flat.size})"
    more = f", … ({flat.size})" if flat.size > most else ""
    return f"[{', '.join(_number(value) for value in flat[:most])}{more}]"


def _number(value: np.generic) -> str:
    return f"{value.item():.6g}" if value.dtype.kind == "f" else str(value.item())


def _shown(values: Any) -> str:
    if isinstance(values, tuple):
        return f"[{', '.join(_shown(value) for value in values)}]"
    if isinstance(values, str):
        return values
    return "none" if values is None else f"{values:g}"
