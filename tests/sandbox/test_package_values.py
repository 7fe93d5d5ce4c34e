"""numpy in programs and tests: values cross as plain data, and the checker compares its own copies."""

from collections.abc import Iterator

import pytest

from sandbox import Program, SandboxPool, Verdict, packages
from sandbox.program import UNTRUSTED, weighed
from tests.sandbox.package_environment import copy_installed
from tests.sandbox.problem_sets import plus_rows

IMPORTS = "import numpy as np\n"
PANDAS = "import numpy as np\nimport pandas as pd\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxPool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(packages.VARIABLE, "")  # restored afterwards
        copy_installed(tmp_path_factory.mktemp("environment"), ("numpy", "pandas"))
        with SandboxPool(2, packages=["pandas"]) as pool:
            yield pool


def judge(pool: SandboxPool, source: str, tests: list[str], head: str = IMPORTS) -> Verdict:
    (verdict,) = pool.run([Program(source=source, tests=[head + test for test in tests], cpu_seconds=5.0)])
    return verdict


HONEST = (
    PANDAS
    + """
def same(x): return x
def double(x): return np.asarray(x) * 2
def mean(x): return np.mean(x)
def add_one(a): a += 1
def totals(frame): return frame.groupby("k").sum()
def resize(a): a.resize(3, refcheck=False)
def add_column(frame): frame["z"] = frame["v"] * 2
def fail(x): raise ValueError("no")
def random(): return np.random.rand(2), np.random.randint(100)
"""
)
ACCEPTED = [
    "assert np.allclose(double([1, 2]), [2, 4])",
    "assert isinstance(double([1]), np.ndarray) and double([[1, 2]]).shape == (1, 2)",
    "assert double(np.array([1.5, 2], dtype=np.float32)).dtype == np.float32",
    "assert isinstance(mean([1, 2]), np.floating) and mean([1, 2]) == 1.5",
    "np.testing.assert_allclose(double(np.array([1.0, 2])), [2, 4])",
    "np.testing.assert_array_equal(same(np.array(['a', 'bc'])), ['a', 'bc'])",
    "np.testing.assert_raises(ValueError, fail, 1)",
    "from numpy.testing import assert_array_equal as equal\nequal(double([1]), [2])",
    "a = np.array([1, 2])\nadd_one(a)\nassert a.tolist() == [2, 3]",
    "a = np.array([[1, 'x'], [None, [2]]], dtype=object)\nassert same(a)[1, 1] == [2] and same(a).shape == (2, 2)",
    "d = np.datetime64('2020-01-01T00:00')\nassert same(d) == d and same(np.array([d])).dtype == np.array([d]).dtype",
    "assert same({'x': np.int64(3)}) == {'x': 3} and isinstance(same(np.bool_(True)), np.bool_)",
    "assert same(np.zeros((0, 3))).shape == (0, 3) and np.isnan(same(np.nan))",
    "assert (np.abs(same(np.array([])) - np.array([])) < 1e-9).all() and (same(np.zeros((0, 3))) * 2).size == 0",
    "assert (same(np.zeros((0, 3))) @ np.ones(3)).shape == (0,) and repr(same(np.arange(2))) == 'array([0, 1])'",
    "a = same(np.arange(3))\na += np.array([1, 1, 1])\nq, r = divmod(a, 2)\n"
    "assert a[a > 1].tolist() == [2, 3] == (q * 2 + r)[1:].tolist()",
    "a = np.array([1, 2])\nresize(a)\nassert a.tolist() == [1, 2, 0]",
]


def test_values_cross_and_tests_with_them_are_trusted(pool: SandboxPool) -> None:
    verdict = judge(pool, HONEST, ACCEPTED)
    outcomes = [(outcome.verdict, outcome.detail, text) for text, outcome in zip(ACCEPTED, verdict.tests, strict=True)]
    assert [each for each in outcomes if each[0] != "accepted"] == []
    assert verdict.trusted_compare


def test_tests_with_pandas_run_in_the_programs_process(pool: SandboxPool) -> None:
    tests = [
        "f = pd.DataFrame({'k': [1, 1, 2], 'v': [1, 2, 3]})\n"
        "pd.testing.assert_frame_equal(totals(f), pd.DataFrame({'v': [3, 3]}, index=pd.Index([1, 2], name='k')))",
        "f = pd.DataFrame({'v': [1, 2, 3]})\nadd_column(f)\nassert f['z'].tolist() == [2, 4, 6]",
        "assert len(pd.period_range('2024-01', periods=2, freq='M')) == 2 and same(pd.NaT) is pd.NaT",
        "assert same(pd.Series([1])).equals(pd.Series([2]))",
    ]
    verdict = judge(pool, HONEST, tests, PANDAS)
    outcomes = [(outcome.verdict, outcome.trusted) for outcome in verdict.tests]
    assert outcomes == [*[("accepted", False)] * 3, ("wrong_answer", False)], verdict.tests


LIES = """
import numpy as np
class Everything(np.ndarray):
    __array_priority__ = 1e9
    def __array_function__(self, *args, **kwargs): return True
    def __array_ufunc__(self, *args, **kwargs): return True
    def __array_finalize__(self, other): pass
    def __eq__(self, other): return True
    def all(self, *args, **kwargs): return True
class Item:
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
    def __float__(self): return 1.0
class Duck(Item):
    def __array__(self, *args, **kwargs): return np.array([1.0, 2.0])
def subclass(): return np.zeros(2).view(Everything)
def objects(): return np.array([Item(), Item()], dtype=object)
def duck(): return Duck()
def nans(): return np.full(2, np.nan)
def empty(): return np.zeros((0,))
def empty_column(): return np.zeros((2, 0, 2))
def empty_rows(): return np.zeros((0, 2))
def one_row(): return np.zeros((1, 2))
def vast(): return np.lib.stride_tricks.as_strided(np.zeros(1), (10**12, 2), (0, 0))
def wide(): return np.zeros((10**4, 1))
for name in ("allclose", "isclose", "array_equal", "all"):
    setattr(np, name, lambda *args, **kwargs: True)
import numpy.testing
for name in dir(numpy.testing):
    if name.startswith("assert"):
        setattr(numpy.testing, name, lambda *args, **kwargs: None)
"""
COMPARISONS = [
    "assert (np.ascontiguousarray({}()).ravel() == [1.0]).all() and np.size({}()) == 0",
    "assert (np.fromiter(np.ravel({}()), float) == [1.0]).all() and np.size({}()) == 0",
    "assert (np.zeros(len({}())) == [0.0]).all() and np.shape({}()) == (0,)",
    "assert np.allclose({}(), [1.0, 2.0])",
    "assert np.isclose({}(), [1.0, 2.0]).all()",
    "assert np.array_equal({}(), [1.0, 2.0])",
    "assert np.array_equal({}(), [1.0, 2.0], equal_nan=True)",
    "np.testing.assert_allclose({}(), [1.0, 2.0])",
    "np.testing.assert_array_equal({}(), np.array([1.0, 2.0]))",
    "np.testing.assert_almost_equal({}(), 5.0)",
    "assert ({}() == np.array([1.0, 2.0])).all()",
    "assert np.all(np.array({}()) == [1.0, 2.0])",
    "assert not ({}() != np.arange(1.0, 3.0)).any()",
    "assert (np.abs(np.asarray({}(), float) - np.array([1.0, 2.0])) < 1e-6).all()",
    "assert np.abs({}() - np.arange(1.0, 3.0)).sum() < 1e-6",
    "assert np.linalg.norm({}()[1:] - np.array([1.0, 2.0])) < 1e-6",
    "assert np.array_equiv({}(), [1.0, 2.0])",
    "assert (np.round({}(), 2) == [1.0]).all()",
    "assert (np.where({}() > 0, 1.0, 2.0) == [5.0]).all()",
    "assert (np.concatenate([{0}(), {0}()]) == [5.0]).all()",
    "assert (np.vstack([{}()]) == [5.0]).all()",
]


@pytest.mark.parametrize(
    "lie",
    ["subclass", "objects", "duck", "nans", "empty", "empty_column", "empty_rows", "one_row", "vast", "wide"],
)
def test_no_lie_passes_a_comparison_of_numpys(pool: SandboxPool, lie: str) -> None:
    verdict = judge(pool, LIES, [test.format(*[lie] * 2) for test in COMPARISONS], "import numpy as np\n")
    assert verdict.trusted_compare
    assert [outcome.verdict for outcome in verdict.tests if outcome.verdict == "accepted"] == []


def test_an_output_checker_does_not_take_no_numbers_for_one(pool: SandboxPool) -> None:
    checker = "import numpy as np\ndef check(input, expected, output):\n"
    checker += "    a, b = (np.array(text.split(), float) for text in (output, expected))\n"
    checker += "    return bool((np.abs(a - b) < 1e-6).all())"
    sources = ["", "print(2.0)"]
    programs = [Program(source=source, stdin_tests=[("", "2")], checker=checker) for source in sources]
    assert [verdict.error_type for verdict in pool.run(programs)] == ["wrong_answer", "accepted"]


OTHER_KINDS = """
def mask(a): return np.ma.masked_where(np.asarray(a) > 2, a)
def mat(a): return np.matrix(a)
def rec(): return np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
def frame(): return pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]})
def nothing(): return pd.NaT
"""


STAY = [  # (test, outcome, whether it is trusted)
    ("assert (mat([[1, 2]]) * mat([[1], [2]]))[0, 0] == 5", "accepted", True),
    ("assert (mat([[1, 2]]) == [1, 2]).all()", "runtime_error", False),
    ("assert mask([1, 2, 3]).sum() == 3 and rec()['a'][0] == 1", "accepted", True),
    ("assert frame().shape == (2, 3) and frame()['a'].sum() == 3", "accepted", True),
    ("assert len(frame()) == 2", "wrong_answer", False),
    ("import pandas\nassert len(frame()) == 2 and frame().equals(frame())", "accepted", False),
    ("import pandas\nassert (frame() < 7).all().all()", "accepted", False),
    ("assert nothing() != nothing() and str(nothing()) == 'NaT'", "accepted", True),
    ("assert frame().shape == (1, 1)", "wrong_answer", False),
]  # fmt: skip


def test_values_that_do_not_cross_stay_with_the_program_and_a_test_that_fails_by_one_is_not_trusted(
    pool: SandboxPool,
) -> None:
    verdict = judge(pool, PANDAS + OTHER_KINDS, [test for test, _, _ in STAY])
    outcomes = [(test, each.verdict, each.trusted) for (test, _, _), each in zip(STAY, verdict.tests, strict=True)]
    assert outcomes == STAY


IN_NAME = """
class A:
    __module__ = "numpy"
    __eq__ = lambda self, other: True
def f(): return A()
"""
FORGED_FLAG = """
import sys
sys.modules["worker.server"].Server._refer = lambda self, value: ["h", 0, False, True]
class A: __eq__ = lambda self, other: True
def f(): return A()
"""


@pytest.mark.parametrize("test", ["assert f() == 1", "import copy\nassert copy.deepcopy(f()) == 1"])
@pytest.mark.parametrize("source", [IN_NAME, FORGED_FLAG, "import pandas as pd\ndef f(): return pd.Series([1])"])
def test_no_program_chooses_the_lane_and_by_none_of_its_values_it_avoids_its_score(
    pool: SandboxPool, source: str, test: str
) -> None:
    verdict = judge(pool, source, [test, "assert 1 == 1"], "")
    expected = [("runtime_error" if "copy" in test else "wrong_answer", False), ("accepted", True)]
    assert [(outcome.verdict, outcome.trusted) for outcome in verdict.tests] == expected
    assert [weighed(verdict, untrusted).pass_ratio for untrusted in UNTRUSTED] == [0.5] * 3


def test_a_text_that_names_a_package_runs_where_its_values_are(pool: SandboxPool) -> None:
    verdict = judge(pool, "import pandas\ndef f(): return pandas.NaT", ["assert pandas.isna(f())"], "")
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", False)


def test_a_checker_of_outputs_may_answer_with_an_object_of_a_package(pool: SandboxPool) -> None:
    checker = "import pandas as pd\ndef check(input, expected, output):\n    return pd.array([output == expected])"
    (verdict,) = pool.run([Program(source="print(end=input())", stdin_tests=[("2", "2")], checker=checker)])
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", True), verdict.tests


FORGER = """
import sys
Server = sys.modules["worker.server"].Server
class Raw(list): pass
def call(self, request): return {{"value": {value}}}
Server._call = call
def f(): pass
"""
FORGED = [
    '["np", "AgIC", "|b1", "3"]',  # bytes that are neither true nor false
    '["np", "", "<f8", "1000000000000"]',
    '["np", "", "<f8", "-1"]',
    '["np", "AAAAAAAAAAA=", "<f8", "0,100000000000"]',
    '["np", "/////w==", "<U1", "1"]',  # no character
    '["np", [["np", [], "O", "0"]], "O", "99999999"]',
    '["np", "AAAAAAAAAAA=", "O", "1"]',
    '["np", "AAAAAAAAAAA=", "V8", "1"]',
    '["np.s", "AAAA", "<f8", ""]',
]


def test_forged_arrays_are_a_failure_of_their_program(pool: SandboxPool) -> None:
    tests = ["assert np.array_equal(f(), [2, 2, 2])", "out = f()\nassert out.sum() == 6", "assert np.all(f() == 2)"]
    for forged in FORGED:
        verdict = judge(pool, FORGER.format(value=forged), tests)
        assert {outcome.verdict for outcome in verdict.tests} <= {"wrong_answer", "runtime_error", "memory"}, forged


def test_a_forged_container_has_no_content_but_its_items(pool: SandboxPool) -> None:
    source = FORGER.format(value="""['u', 1, 0, [], ['l', [], 'ab']]""")
    for test in ("assert f() == ['a', 'b']", "assert f() == []"):
        assert judge(pool, source, [test]).error_type == "runtime_error"


def test_memory_is_what_the_program_adds(pool: SandboxPool) -> None:
    source = "import numpy as np\ndef f(mebibytes):\n    return int(np.ones(mebibytes << 20, 'u1').sum()) >> 20\n"
    programs = [
        Program(source=source, tests=[f"assert f({size}) == {size}"], memory_mb=64, cpu_seconds=5.0)
        for size in (40, 80)
    ]
    small, large = pool.run(programs)
    assert small.error_type == "accepted"
    assert 40 << 20 < small.peak_rss < 64 << 20
    assert large.error_type == "memory"


def test_generators_start_from_the_same_seed_and_there_is_one_thread(pool: SandboxPool) -> None:
    tests = ["assert False, random()"]
    first, second = (judge(pool, HONEST, tests).tests[0].detail for _ in range(2))
    assert first == second
    source = "import numpy as np, os\ndef f():\n    np.ones((500, 500)) @ np.ones((500, 500))\n"
    source += "    import threading\n    return len(os.sched_getaffinity(0)) > 0, threading.active_count()\n"
    assert judge(pool, source, ["assert f() == (True, 1)"]).error_type == "accepted"


def test_in_the_programs_process_a_test_has_numpys_own_functions(pool: SandboxPool) -> None:
    tests = [
        "np.testing.assert_allclose(f(1), 2.0)",
        "assert np.allclose(f(1), 2.0)",
        "assert np.array_equal(np.asarray(f(1)), np.array(2.0))",
        "from numpy.testing import assert_equal\nassert_equal(f(1), 2.0)",
        "np.testing.assert_raises(ValueError, f, 1)",
    ]
    source = LIES + "def f(x): return -1.0\nimport unittest\nunittest.TestCase.assertRaises = lambda *args: None\n"
    verdict = judge(pool, source, tests, "import io\nimport numpy as np\n")
    assert {(outcome.verdict, outcome.trusted) for outcome in verdict.tests} == {("wrong_answer", False)}


def test_without_packages_a_text_with_numpy_is_judged_as_before_and_its_words_mean_nothing(pool: SandboxPool) -> None:
    with SandboxPool() as bare:
        missing = judge(bare, "def f(): return 1", ["assert np.allclose(f(), 1)"])
        for each in (pool, bare):
            verdict = judge(each, "def f(x): return x", ["assert '{out}'.format(out=f(1)) == '1'"], "")
            assert (verdict.error_type, verdict.trusted_compare) == ("accepted", True)
    assert (missing.error_type, missing.trusted_compare) == ("runtime_error", True)
    assert "No module named 'numpy'" in missing.tests[0].detail


def test_a_method_of_the_programs_own_may_be_named_like_one_of_arrays(pool: SandboxPool) -> None:
    source = "class Pile:\n    def size(self): return 2\ndef make(): return Pile()\n"
    verdict = judge(pool, source, ["assert make().size() == 2"], "")
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", True)


@pytest.mark.parametrize("first", [12, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "count"), [("humaneval_plus", 164), ("mbpp_plus", 974)])
def test_rows_in_the_shape_of_the_plus_sets(pool: SandboxPool, kind: str, count: int, first: int) -> None:
    rows = plus_rows(kind, first)
    assert len(rows) > 0.9 * min(first, count)
    right = [Program(**row, cpu_seconds=20) for _, row in rows]
    wrong = [Program(**row | {"source": f"def {name}(*args): return 'nothing'"}) for name, row in rows]
    verdicts = list(pool.run([*right, *wrong]))
    outcomes = [(verdict.error_type, verdict.trusted_compare) for verdict in verdicts]
    assert outcomes[: len(rows)] == [("accepted", True)] * len(rows)
    assert ("accepted", True) not in outcomes[len(rows) :]
