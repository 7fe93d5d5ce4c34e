# Compilers that numpy would start: f2py and the builder of its tests.
import numpy as np

for start in (
    lambda: __import__("numpy.f2py").f2py.compile("end", modulename="m") if hasattr(np.f2py, "compile") else 1 / 0,
    lambda: __import__("subprocess").run(["/bin/true"], check=True),
    lambda: __import__("numpy.testing").testing.extbuild.build_and_import_extension("m", []),
):
    try:
        if not start():
            continue
        print("LEAK: started")
    except Exception:
        pass


def f(x):
    return 2 * x
