"""Imported before transformers by every package that uses it: makes its import a sixth faster.

transformers imports scikit-learn and SciPy if they are installed (MLflow depends on them), for assisted generation and
losses of object detection. It checks for them once; this module has it check while they are hidden. A later `import
sklearn` works as ever.
"""

import sys

_UNUSED = [name for name in ("sklearn", "scipy") if name not in sys.modules]
for _name in _UNUSED:
    sys.modules[_name] = None  # type: ignore[assignment]  # makes importing it fail
try:
    from transformers.utils import is_scipy_available, is_sklearn_available

    is_scipy_available(), is_sklearn_available()
finally:
    for _name in _UNUSED:
        del sys.modules[_name]
