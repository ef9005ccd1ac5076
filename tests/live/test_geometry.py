"""The addresses of the elements of tensors."""

import numpy as np
import pytest
import torch

from exploy.live.geometry import Geometry

BASE = torch.arange(24.0).reshape(2, 3, 4)
TENSORS = {
    "new": BASE,
    "scalar": torch.tensor(1.0),
    "empty": torch.zeros(2, 0),
    "one element in many dimensions": torch.zeros(1, 1, 1),
    "slice of rows": BASE[1:],
    "slice of columns": BASE[:, :, 1:3],
    "every second": BASE[..., ::2],
    "transposed": BASE.transpose(0, 2),
    "expanded": torch.zeros(1, 3).expand(4, 3),
    "overlapping": torch.zeros(8).as_strided((3, 4), (2, 1)),
    "one column": BASE[:, :, :1],
}


@pytest.mark.parametrize("name", TENSORS)
def test_all_elements_have_their_addresses_once(name: str) -> None:
    tensor = TENSORS[name]
    places = {tensor[index].data_ptr() for index in np.ndindex(*tensor.shape)}
    assert Geometry.of(tensor).elements.tolist() == sorted(places)
