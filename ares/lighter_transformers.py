"""Imported before transformers by every package that uses it: the same library, but a sixth of its time to load less.

transformers loads scikit-learn and SciPy, where they are installed (MLflow brings them along), for assisted generation
and for losses of object detection. It asks once whether they are there; here, before they are. A user's own `import
sklearn` finds it as ever.
"""

import sys

_UNUSED = [name for name in ("sklearn", "scipy") if name not in sys.modules]
for _name in _UNUSED:
    sys.modules[_name] = None  # type: ignore[assignment]  # Python's way to say that there is none
try:
    from transformers.utils import is_scipy_available, is_sklearn_available

    is_scipy_available(), is_sklearn_available()
finally:
    for _name in _UNUSED:
        del sys.modules[_name]
