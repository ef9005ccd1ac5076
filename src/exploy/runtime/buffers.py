"""The arrays that a user writes inputs into and reads outputs from."""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np


class Buffers(dict[str, np.ndarray]):
    """Arrays by port name. They can be written into, but not replaced."""

    def _refuse(self, *arguments: Any, **named: Any) -> NoReturn:
        raise TypeError("Buffers cannot be replaced or removed; write into them: controller.inputs[name][:] = value")

    def __reduce__(self) -> tuple[type[dict], tuple[dict[str, np.ndarray]]]:
        return dict, ({name: array.copy() for name, array in self.items()},)

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


def read_only(arrays: Mapping[str, np.ndarray]) -> Buffers:
    """Return read-only views of arrays."""
    views = {name: array.view() for name, array in arrays.items()}
    for view in views.values():
        view.flags.writeable = False
    return Buffers(views)
