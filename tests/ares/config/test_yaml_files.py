from pathlib import Path

import pytest

from ares.config.profiles import load
from ares.config.strict import ConfigError


def test_a_duplicate_key_in_a_profile_is_refused_with_both_lines(tmp_path: Path) -> None:
    profile = tmp_path / "twice.yaml"
    profile.write_text("extends: tiny-math\nrollout:\n  n: 4\n  prompts: 8\n  n: 8\n")
    with pytest.raises(ConfigError, match=r"twice.yaml: not YAML: 'n' stands in line 3 and in line 5"):
        load(str(profile))


def test_a_folder_and_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00a: 1")
    for name in ("folder.yaml", "bytes.yaml"):
        with pytest.raises(ConfigError, match=f"{name}: not"):
            load(str(tmp_path / name))


def test_a_key_may_stand_in_two_sections_and_overrule_an_anchor(tmp_path: Path) -> None:
    profile = tmp_path / "good.yaml"
    profile.write_text("extends: tiny-math\nrollout: &a\n  n: 4\nvalidation:\n  <<: *a\n  n: 8\n")
    config = load(str(profile))
    assert (config.rollout.n, config.validation.n) == (4, 8)
