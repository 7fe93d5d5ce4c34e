"""Importing without looking for garbage."""

import gc

from flows.loading import loading


def test_what_was_loaded_is_not_looked_through_again() -> None:
    assert gc.isenabled()
    with loading():
        assert not gc.isenabled()
        loaded = [[number] for number in range(1000)]
    assert gc.isenabled()
    try:
        assert not any(each is loaded for each in gc.get_objects())
    finally:
        gc.unfreeze()
