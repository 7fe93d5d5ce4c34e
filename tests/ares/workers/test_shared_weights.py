"""Weights that engines read where the learner has them."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from ares.engines import ALIGNED, view_as_tensors
from ares.workers import SharedWeights
from tests.ares.builders import engine, requests
from tests.ares.engines.test_transformers_engine import SETTINGS, same


def test_who_opens_them_sees_what_the_learner_writes_later() -> None:
    layer = torch.nn.Linear(3, 5)
    before = layer.weight.detach().clone()
    shared = SharedWeights.move({"weight": layer.weight, "bias": layer.bias})
    seen = shared.arrays()
    assert torch.equal(layer.weight, before)
    assert np.array_equal(seen["weight"], before.numpy())
    with torch.no_grad():
        layer.weight.mul_(2.0)
    assert np.array_equal(seen["weight"], 2.0 * before.numpy())
    assert seen["bias"].shape == (5,)
    assert not seen["weight"].flags.writeable
    assert all(array.ctypes.data % ALIGNED == 0 for array in seen.values())


def test_those_of_a_learner_that_died_are_not_there() -> None:
    shared = SharedWeights.move({"weight": torch.ones(2)})
    with pytest.raises(FileNotFoundError):
        replace(shared, file="/proc/self/fd/999").arrays()


def test_those_of_a_learner_that_has_ended_are_freed_though_its_process_goes_on() -> None:
    weight = torch.ones(2)
    shared = SharedWeights.move({"weight": weight})
    files = len(os.listdir("/proc/self/fd"))
    del shared, weight
    assert len(os.listdir("/proc/self/fd")) == files - 2  # its own and that of the mapping


def at_odd_address(array: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.float32), array.ravel()])[1:].reshape(array.shape)


@pytest.mark.parametrize(("lent", "aligned"), [(True, True), (True, False), (False, True)])
def test_an_engine_uses_lent_weights_as_they_lie_and_gives_the_same_bits(lent: bool, aligned: bool) -> None:
    """At an odd address a product with a single row has other bits, so such weights are copied."""
    copying, borrowing = engine(), engine()
    weights = {name: weight.detach().clone() for name, weight in copying.model.named_parameters()}
    shared = SharedWeights.move(weights)
    arrays = shared.arrays() if aligned else {name: at_odd_address(array) for name, array in shared.arrays().items()}
    borrowing.borrows = lent
    borrowing.load_weights(1, view_as_tensors(arrays))
    own = {name: weight.data_ptr() for name, weight in borrowing.model.named_parameters()}
    lies = {name: array.ctypes.data for name, array in arrays.items()}
    assert (own == lies) is (lent and aligned)
    assert same(copying.generate(requests(1), SETTINGS), borrowing.generate(requests(1), SETTINGS))
