# Files by numpy's own writers and readers: the secret, a folder of the host, the package itself.
import numpy as np

for read in (np.fromfile, np.load, np.loadtxt, np.genfromtxt, lambda p: np.memmap(p, "u1", "r")):
    try:
        print("LEAK:", read("@SECRET_FILE@"))
    except (OSError, ValueError):
        pass
for write in (
    lambda p: np.ones(3).tofile(p),
    lambda p: np.save(p, np.ones(3)),
    lambda p: np.savez(p, a=np.ones(3)),
    lambda p: np.savetxt(p, np.ones(3)),
    lambda p: np.memmap(p, "u1", "w+", shape=(8,)).flush(),
):
    for path in ("@HOST_DIR@/written", np.__file__, np.__file__ + ".new"):
        try:
            write(path)
            print("LEAK: written", path)
        except OSError:
            pass
np.save("own.npy", np.arange(3))  # its own /tmp, where there is one


def f(x):
    return int(np.load("own.npy").sum()) + x
