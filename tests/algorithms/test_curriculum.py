"""A curriculum rises when its level's newest groups are accurate enough, and a resume goes on where it was."""

import json

import pytest

from algorithms.curriculum import Curriculum, CurriculumSettings


def curriculum(levels: int = 3) -> Curriculum:
    return Curriculum(CurriculumSettings(threshold=0.75, window=4), levels)


def test_it_rises_once_the_window_is_full_and_its_accuracy_reaches_the_threshold():
    of = curriculum()
    of.observe([0, 0, 0], [1.0, 1.0, 1.0])
    assert of.metrics() == {"curriculum/level": 0.0, "curriculum/accuracy": 1.0}
    of.observe([0], [0.0])
    assert of.metrics() == {"curriculum/level": 1.0}, "the window begins anew"


def test_only_the_newest_groups_count():
    of = curriculum()
    for accuracy in (0.0, 0.0, 0.0, 1.0, 1.0):
        of.observe([0], [accuracy])
    assert of.metrics() == {"curriculum/level": 0.0, "curriculum/accuracy": 0.5}
    of.observe([0], [1.0])
    assert of.level == 1


def test_groups_of_an_earlier_level_do_not_count():
    of = curriculum()
    of.observe([0] * 4, [1.0] * 4)
    of.observe([0] * 4, [1.0] * 4)
    assert of.metrics() == {"curriculum/level": 1.0}


def test_the_last_level_stays():
    of = curriculum(2)
    for level in (0, 1, 1):
        of.observe([level] * 4, [1.0] * 4)
    assert of.metrics() == {"curriculum/level": 1.0, "curriculum/accuracy": 1.0}


def test_a_restored_one_goes_on_as_if_nothing_had_happened():
    of, again = curriculum(), curriculum()
    of.observe([0, 0], [1.0, 0.5])
    again.load_state_dict(json.loads(json.dumps(of.state_dict())))
    for each in (of, again):
        each.observe([0, 0], [1.0, 0.5])
    assert of.state_dict() == again.state_dict() == {"level": 1, "recent": []}
    with pytest.raises(ValueError, match="curriculum state must have the keys"):
        again.load_state_dict({"level": 1})
