"""Answer grading: exact where possible, elsewhere by math-verify in a killable process."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from rewards import math as grading


def boxed(*answers):
    return [f"so it is \\boxed{{{answer}}}" for answer in answers]


def worker_ids():
    return [worker.process.pid for worker in grading._pool().workers]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("\\boxed{1} then \\boxed{ 2 }", " 2 "),
        ("\\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed{}", ""),
        ("\\boxed{1", None),
        ("\\boxed 1", None),
        ("", None),
    ],
)
def test_the_last_boxed_content(text, content):
    assert grading.last_boxed(text) == content


def test_plain_numbers_need_no_process(monkeypatch):
    monkeypatch.setattr(grading, "_pool", lambda: pytest.fail("a process was asked"))
    answers = boxed("42", "42.0", "-0.50", "+7", "43", "1e5", "")
    truths = ["42", 42, "-.5", 7.0, "42", "1e5", "3"]
    assert grading.grade_answers([*answers, "42", "\\boxed{42"], [*truths, "42", "42"]) == [1, 1, 1, 1, 0, 1, 0, 0, 0]


GSM8K = "Betty has 100 / 2 = $<<100/2=50>>50.\nThis means, Betty needs 100 - 50 - 45 = $<<100-50-45=5>>{}more.\n#### {}"


@pytest.mark.parametrize(
    ("truth", "right", "wrong"),
    [
        (GSM8K.format(5, 5), "5", "50"),
        (GSM8K.format(-5, -5), "-5.0", "5"),
        ("so \\boxed{3} and then\n#### 4", "4", "3"),
        ("#### 1,250", "1,250", "250"),
        ("#### $18\n", "18", "1"),
        ("half\n#### 50%", "50%", "2"),
    ],
)
def test_the_answer_of_a_gsm8k_solution_is_what_follows_the_last_mark(monkeypatch, truth, right, wrong):
    monkeypatch.setattr(grading, "_pool", lambda: pytest.fail("no process is needed"))
    assert grading.grade_answers(boxed(right), [truth]) == [1.0]
    monkeypatch.undo()
    assert grading.grade_answers(boxed(wrong), [truth]) == [0.0]


def test_a_heading_within_a_text_is_no_answer():
    assert grading._truth("#### Step 1\n7", 0) == "#### Step 1\n7"


def test_math_verify_decides_the_rest_and_an_endless_answer_is_no_score():
    responses = boxed("\\frac{1}{2}", "x^2+2x+1", "9^{9^{9^{9}}}", "\\frac{1}{3}", "{2,1}", "paris", "London")
    truths = ["0.5", "(x+1)^2", "3", "0.5", "$\\{1,2\\}$", "Paris", "Paris"]
    assert grading.grade_answers(responses, truths, timeout=2.0) == [1, 1, None, 0, 1, 1, 0]
    first = worker_ids()
    assert grading.grade_answers(boxed("\\frac{2}{4}"), ["0.5"]) == [1.0]
    assert worker_ids() == first


def test_a_dead_worker_is_replaced_and_its_request_is_not_lost():
    assert grading.grade_answers(boxed("\\frac{2}{4}"), ["0.5"]) == [1.0]
    for worker in grading._pool().workers:
        worker.process.kill()
        worker.process.wait()
    assert grading.grade_answers(boxed("\\frac{2}{4}"), ["0.5"]) == [1.0]


def test_it_works_off_the_main_thread():
    grades = []
    threads = [
        threading.Thread(target=lambda: grades.append(grading.grade_answers(boxed("\\frac{2}{4}"), ["0.5"])))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert grades == [[1.0]] * 3


def test_close_leaves_no_process():
    grading.grade_answers(boxed("\\frac{2}{4}"), ["0.5"])
    pids = worker_ids()
    assert pids
    grading._pool().close()
    assert not any(map(alive, pids))


GRADE_AND_REPORT = """
import sys, time
from rewards.math import _pool, grade_answers
assert grade_answers(["\\\\boxed{\\\\frac12}"], ["0.5"]) == [1.0]
print(_pool().workers[0].process.pid, flush=True)
if sys.argv[1] == "wait":
    time.sleep(60)
"""


@pytest.mark.parametrize("ending", ["exit", "kill"])
def test_no_worker_outlives_its_parent(ending):
    command = [sys.executable, "-c", GRADE_AND_REPORT, "wait" if ending == "kill" else "go"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if ending == "kill":
            parent.kill()
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


def test_bad_inputs():
    assert grading.grade_answers([], []) == []
    with pytest.raises(ValueError, match="1 responses but 2"):
        grading.grade_answers(["a"], ["1", "2"])
    for truth in (None, "", "  ", "\\boxed{}"):
        with pytest.raises(ValueError, match="row 0"):
            grading.grade_answers(["a"], [truth])
    with pytest.raises(ValueError, match="timeout"):
        grading.grade_answers(["a"], ["1"], timeout=0)


WORDS_AND_LETTERS = [
    ("ACB", "ABC", 0), ("ABC", "ABC", 1), ("listen", "silent", 0), ("no", "on", 0), ("HTH", "HHT", 0), ("IV", "VI", 0),
    ("\\text{ABC}", "ABC", 1), ("\\text{ACB}", "ABC", 0), ("\\triangle ACB", "\\triangle ABC", 0),
    ("A B C", "$ABC$", 1),
    ("new york", "New York", 1), ("\\text{London}.", "london", 1), ("York New", "New York", 0),
    ("\\text{A, C}", "C,A", 1), ("\\text{A, B}", "A,C", 0), ("(A)", "A", 1), ("A", "(A)", 1), ("B", "(A)", 0),
    ("\\text{(B, A)}", "(A, B)", 0),
    ("CD, AB", "AB, CD", 1), ("BA, CD", "AB, CD", 0), ("(CD, AB)", "(AB, CD)", 0), ("(AB, CD)", "(AB,CD)", 1),
]  # fmt: skip
"""(answer, truth, right): letters alone are words or names, whose order matters."""
ALGEBRA = [
    ("x\\cdot 2", "2x", 1), ("b \\cdot a", "ab", 1), ("ab+1", "1+ba", 1), ("\\pi r^2", "r^2\\pi", 1), ("c", "b", 0),
    ("b", "b", 1), ("ac+ab", "a(b+c)", 1), ("B,A", "A,B", 1), ("z", "\\overline{z}", 0), ("\\overline{A}", "A", 0),
    ("\\vec{a}", "a", 0), ("\\vec{b}, \\vec{a}", "a, b", 0), ("\\vec{a}", "\\vec{a}", 1),
]  # fmt: skip
"""Anything with an operator, a digit or a command is mathematics, and commutes."""
NUMBERS = [
    ("1e-5", "0.00001", 1), ("0.00001", "1e-5", 1), ("1e-5", 1e-05, 1), ("10000000000000000", 1e16, 1),
    ("1E+3", "1000", 1), ("1e-5", "1e-6", 0), ("10^{-5}", 1e-05, 1), ("\\frac{1}{100000}", "1e-5", 1),
    ("1\\times 10^{-5}", "1e-5", 1), ("2\\times 10^{-7}", 1e-07, 0), ("\\frac{1}{10000000}", "0.0000002", 0),
    ("0.0000002", "\\frac{1}{10000000}", 0), ("\\frac{1}{10000000}", "0", 0), ("\\frac{1}{8000}", "0.000125", 1),
    ("0.3333333", "\\frac13", 1), ("7", [7], 1), ("$7$", "7.0", 1), ("0.5", np.float64(0.5), 1),
    ("(\\sqrt2+1)(\\sqrt2-1)-1", "0", 1), ("0", "(\\sqrt2+1)(\\sqrt2-1)-1", 1),
    ("1.6\\times 10^{-19}", "9.1\\times 10^{-31}", 0), ("10^{-21}", "10^{-20}", 0), ("0", "10^{-20}", 0),
    ("2\\cdot 10^{-20}", "\\frac{2}{10^{20}}", 1), ("10^{400}\\cdot 1", "10^{400}", 1),
]  # fmt: skip


IN_A_PROCESS = """
from rewards.math import grade_answers
answer = "The function is increasing everywhere on the interval from 1 to 2"
print(grade_answers([f"\\\\boxed{{{answer}}}", "\\\\boxed{" + 60 * "a" + "1}"], ["increasing", "increasing"]))
"""


def test_a_sentence_with_a_digit_is_graded_at_once():
    # In a process of its own: a regular expression that backtracks cannot be interrupted.
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[0.0, 0.0]\n"


NOTATIONS = [
    ("1\\,234", "1234", 1), ("1\\,234", "235", 0), ("1\\,234\\,567", "1234567", 1), ("12 000", "12000", 1),
    ("10{,}080", "10,\\!080", 1), ("5 125/216", "5125/216", 0), ("\\{100,\\ 200\\}", "\\{200, 100\\}", 1),
    ("3.\\overline{3}", "3", 0), ("3.\\overline{3}", "\\frac{10}{3}", 1), ("-0.1\\overline{6}", "-1/6", 1),
    ("0.5", "0.\\overline{5}", 0), (".\\overline{12}", "\\frac{4}{33}", 1),
    ("6.02\\times 10^{23}", "602000000000000000000000", 1), ("6.02 \\cdot 10^2", "602", 1), ("3×10^{-2}", ".03", 1),
    ("3\\times 10^{2}", "3000", 0), ("12.5\\%", "12.5", 1), ("12.5", "12.5%", 1), ("12.5\\%", "1.25", 0),
    ("\\begin{pmatrix}\n1 \\\\\n2\n\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}", 1),
    ("\\begin{pmatrix}\n1 \\\\\n3\n\\end{pmatrix}", "\\begin{pmatrix}\n1 \\\\\n2\n\\end{pmatrix}", 0), ("2\ny", "2", 0),
    ("\\frac{1}{2}.", "1/2", 1), ("$\\frac12$.", "$1/2.$", 1), ("5.", "5", 1),
    ("p \\land q", "p\\land q", 1), ("( 1 ,2 ]", "(1,2]", 1), ("1 2", "12", 0),
    ("11:30", "10:00", 0), ("10:00", "10:00", 1), ("10:00 \\text{ PM}", "10:00\\text{ PM}", 1), ("5", "\\frac10", 0),
]  # fmt: skip
"""Groups of digits, repeating decimals, powers of ten, percent signs, several lines, blanks, times of day."""
UNREADABLE = [
    ("17 \\bmod 5", "5", 0), ("17\\bmod 5", "17 \\bmod 5", 1), ("5", "17 \\bmod 5", 0),
    ("\\begin{cases} x=1 \\\\ y=2\\end{cases}", "2", 0), ("2", "\\begin{cases} x=1 \\\\ y=2\\end{cases}", 0),
    ("5 €", "5", 1), ("90°", "90", 1), ("\\approx 3.14", "3.14", 1), ("5/2 €", "2", 0), ("10 a.m.", "10", 1),
]  # fmt: skip
"""Unreadable to math-verify as a whole: if it contains a single number, that is the answer."""
PERCENT = [
    ("25\\%", "25", 1), ("25", "25\\%", 1), ("25 \\text{ percent}", "25\\%", 1), ("\\frac14", "25\\%", 1),
    ("12.5\\%", "0.125", 1), ("26\\%", "25\\%", 0), ("0.06\\%", "0.05\\%", 0), ("0.05\\%", "0.0005", 1),
]  # fmt: skip
"""A percentage equals its number, or a hundredth of it."""


@pytest.mark.parametrize(
    ("answer", "truth", "right"), [*WORDS_AND_LETTERS, *ALGEBRA, *NUMBERS, *NOTATIONS, *UNREADABLE, *PERCENT]
)
def test_words_algebra_and_numbers(answer, truth, right):
    assert grading.grade_answers(boxed(answer), [truth]) == [right]
