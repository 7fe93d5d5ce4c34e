"""The sandbox's own packages: building the environment, and programs and tests that use it."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.sandbox import app
from sandbox import PackageError, Program, SandboxPool, packages
from tests.sandbox.package_environment import make_wheel


def offered(root: Path, patch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place where pip looks, and beside it an empty environment."""
    folder = root / "wheels"
    folder.mkdir()
    patch.setenv(packages.VARIABLE, str(root / "environment"))
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder))
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    make_wheel(folder, "upper", "1.0", "import lower\n\ndef answer():\n    return lower.ONE + 1\n", ("lower>=1",))
    make_wheel(folder, "lower", "1.0", "ONE = 1\n")
    make_wheel(folder, "apart", "2.0", "TWO = 2\n")
    return folder


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of wheels; the environment is empty."""
    return offered(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of wheels and of an environment with `upper` and `apart`, made once, since pip takes a second.

    A build that was killed had left something.
    """
    root = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        offered(root, patch)
        left = packages.folder() / "lib" / "building" / "left"
        left.mkdir(parents=True)
        packages.add(["upper", "apart"])
        assert not left.parent.exists()
    return root


@pytest.fixture
def filled(wheels: Path, built: Path, tmp_path: Path) -> Path:
    """The folder of wheels; `upper` and `apart` were added to the environment."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)  # wheels too: others would have other hashes
    return wheels


def asked_for() -> list[str]:
    first, *_ = (packages.folder() / packages.LOCK).read_text().splitlines()
    return first.removeprefix("# asked for: ").split(", ") if first != "# asked for: " else []


def names() -> list[str]:
    return [f"{each.name} {each.version}" for each in packages.installed()]


def test_packages_are_added_with_what_they_require_and_removed_with_what_nothing_else_requires(filled: Path) -> None:
    assert names() == ["apart 2.0", "lower 1.0", "upper 1.0"]
    lock = (packages.folder() / packages.LOCK).read_text()
    assert lock.count("--hash=sha256:") == 3
    environment = packages.find(["upper"])
    assert (environment.names, environment.hidden) == (("upper",), ("lower",))
    assert environment.versions == ("lower==1.0", "upper==1.0")
    with pytest.raises(PackageError, match=r"not among the packages asked for \(apart, upper\): lower"):
        packages.remove(["lower"])
    packages.add(["lower"])
    packages.remove(["lower"])
    assert (names(), asked_for()) == (["apart 2.0", "lower 1.0", "upper 1.0"], ["upper", "apart"])
    packages.remove(["upper"])
    assert names() == ["apart 2.0"]
    assert [path.name for path in (packages.folder() / "lib").iterdir()] == ["apart-2.0"]


def test_changes_at_the_same_time_follow_one_another(filled: Path) -> None:
    with ThreadPoolExecutor() as threads:
        changes = [threads.submit(packages.add, ["lower"]), threads.submit(packages.remove, ["apart"])]
    assert [len(change.result()) for change in changes] in ([3, 2], [2, 2])
    assert asked_for() == ["upper", "lower"]


@pytest.mark.slow
def test_what_is_there_keeps_its_version_until_another_is_asked_for_and_pools_keep_theirs_until_their_end(
    filled: Path,
) -> None:
    make_wheel(filled, "lower", "1.5", "ONE = 2\n")
    packages.add(["apart"])
    before = packages.find(["upper"]).digest
    assert names() == ["apart 2.0", "lower 1.0", "upper 1.0"]
    lib = packages.folder() / "lib"
    program = Program(source="import upper", tests=["assert upper.answer() == 2"])
    with SandboxPool(packages=["upper"]) as pool:
        packages.add(["lower==1.5"])
        assert names() == ["apart 2.0", "lower 1.5", "upper 1.0"]
        assert packages.find(["upper"]).digest != before
        pool._take(is_fresh=True).kill()
        pool._free.append(None)  # the next worker imports them anew
        assert pool.run([program])[0].error_type == "accepted"
    assert sorted(path.name for path in lib.iterdir()) == ["apart-2.0", "lower-1.0", "lower-1.5", "upper-1.0"]
    packages.remove(["upper", "lower"])
    assert [path.name for path in lib.iterdir()] == ["apart-2.0"]


@pytest.mark.slow
def test_another_machine_builds_the_same_from_the_lock_and_from_nothing_else(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.remove(["upper"])
    lock, digest = packages.folder() / packages.LOCK, packages.find(["apart"]).digest
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path / "other"))
    packages.add_locked(lock)
    assert packages.find(["apart"]).digest == digest
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path / "third"))
    make_wheel(filled, "apart", "2.0", "TWO = 7\n")  # the same version, but other bytes
    with pytest.raises(PackageError, match="DO NOT MATCH THE HASHES"):
        packages.add_locked(lock)
    assert packages.installed() == []


def test_a_build_that_fails_leaves_the_environment_as_it_was(filled: Path) -> None:
    with pytest.raises(PackageError, match="No matching distribution found for nosuch"):
        packages.add(["nosuch"])
    with pytest.raises(PackageError, match="not names of packages"):
        packages.add(["--index-url=x"])
    assert names() == ["apart 2.0", "lower 1.0", "upper 1.0"]


def test_missing_packages_are_one_error_with_the_command_before_anything_starts(
    wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.pool.WorkerProcess", lambda *arguments: pytest.fail("a worker was started"))
    with pytest.raises(PackageError, match=r"have no upper, sklearn\. Add: .* packages add upper scikit-learn"):
        SandboxPool(packages=["upper", "sklearn"])
    with pytest.raises(ValueError, match="as they are imported"):
        SandboxPool(packages=["scikit-learn"])


def test_programs_and_tests_have_what_was_asked_for_and_what_it_requires_and_nothing_else(filled: Path) -> None:
    source = "import upper\ndef f():\n    return upper.answer()\ndef g():\n    import apart"
    program = Program(source=source, tests=["assert f() == 2", "import upper\nassert upper.answer() == f()", "g()"])
    with SandboxPool(packages=["upper"]) as pool:
        (verdict,) = pool.run([program])
    assert [test.verdict for test in verdict.tests] == ["accepted", "accepted", "runtime_error"]
    assert "No module named 'apart'" in verdict.tests[2].detail
    # The values of any package but numpy do not cross, so its test cannot be judged apart.
    assert [test.trusted for test in verdict.tests] == [True, False, True]


@pytest.mark.slow
def test_the_command_adds_lists_and_removes(filled: Path) -> None:
    def said(*arguments: str) -> str:
        return CliRunner().invoke(app, ["packages", *arguments]).output

    assert "packages: none" in said("remove", "upper", "apart")
    assert "packages: none" in said("list")
    assert asked_for() == []
    assert "package apart 2.0: import apart" in said("add", "apart")
    assert asked_for() == ["apart"]
    assert "packages.lock" in CliRunner().invoke(app, ["probe"]).output
    assert "apart" in said("list")
    assert packages.remove(["apart"]) == []
    assert CliRunner().invoke(app, ["packages", "add"]).exit_code == 2


def test_run_takes_packages(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, tests = tmp_path / "program.py", tmp_path / "tests.py"
    program.write_text("import upper\ndef f():\n    return upper.answer()\n")
    tests.write_text("assert f() == 2\n")
    command = ["run", str(program), "--tests", str(tests), "--package", "upper"]
    with monkeypatch.context() as patch:
        patch.setenv(packages.VARIABLE, str(tmp_path / "empty"))
        assert CliRunner().invoke(app, command).exit_code == 2
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
