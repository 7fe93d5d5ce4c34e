"""The sandbox's own environment: packages for programs and tests, separate from the trainer's.

    $ARES_SANDBOX_PACKAGES, or ~/.local/share/ares/sandbox-packages
    └ cpython-311-x86_64-linux-gnu       one for each kind of interpreter
       ├ packages.lock                   every distribution with its hashes, as pip reads it
       └ lib/numpy-2.4.6                 one folder each: a worker sees those it needs and what they require

Covered: building it (wheels only, so that no code of a package runs), what is installed, what a package needs. Not
covered: importing packages, which only a worker does.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sandbox.isolation import SandboxUnavailable

VARIABLE = "ARES_SANDBOX_PACKAGES"
LOCK = "packages.lock"
_ASKED = "# asked for: "
# Distributions with another name than their module, of those that programs import most.
_DISTRIBUTIONS = {
    "PIL": "pillow", "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PIN = re.compile(rf"({_NAME.pattern})==({_NAME.pattern})(?: --hash=\S+)+")


class PackageError(SandboxUnavailable):
    """The sandbox's environment lacks packages, or cannot be changed as asked and is left as it was."""


@dataclasses.dataclass(frozen=True)
class Distribution:
    """One distribution of the environment."""

    name: str
    """Normalized, for comparison."""
    version: str
    pin: str
    """Its line in the lock: `numpy==2.4.6 --hash=sha256:…`, with the hash of each file that may be installed."""

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return folder() / "lib" / f"{self.name}-{self.version}"

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that it provides."""
        stems = {path.name.partition(".")[0] for path in self.folder.glob("*") if _is_module(path)}
        return tuple(sorted(name for name in stems if name.isidentifier()))

    @property
    def required(self) -> frozenset[str]:
        """Names of distributions it needs, without those of its extras."""
        distribution = next(iter(importlib.metadata.distributions(path=[str(self.folder)])))
        needed = [line.partition(";") for line in distribution.requires or ()]
        return frozenset(_normal(line) for line, _, marker in needed if not re.search(r"\bextra\b", marker))


def _is_module(path: Path) -> bool:
    if path.is_dir():
        return "." not in path.name and any(path.rglob("*.py"))
    return path.suffix in (".py", ".so")


@dataclasses.dataclass(frozen=True)
class Packages:
    """What a pool's workers are given."""

    names: tuple[str, ...] = ()
    """Modules imported once, before any program: those asked for, and numpy, whose values cross, if they require it."""
    hidden: tuple[str, ...] = ()
    """Other modules that programs can import."""
    paths: tuple[str, ...] = ()
    """Folders of the distributions they need."""
    versions: tuple[str, ...] = ()
    """`numpy==2.4.6`, … of those distributions."""
    digest: str = ""
    """Of their lines in the lock."""


NO_PACKAGES = Packages()


def folder() -> Path:
    """Where the environment for this interpreter is."""
    root = os.environ.get(VARIABLE)
    kind = str(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)
    return (Path(root) if root else Path.home() / ".local/share/ares/sandbox-packages").absolute() / kind


def installed() -> list[Distribution]:
    """The distributions in the lock that are installed, sorted by name."""
    return [each for each in _read_lock()[1] if each.folder.is_dir()]


def find(names: Iterable[str]) -> Packages:
    """What workers need to import these modules. Raises PackageError, which names all that are missing, with the
    command that adds them."""
    names = tuple(dict.fromkeys(names))
    if not names:
        return NO_PACKAGES
    wrong = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
    if wrong:
        raise ValueError(f"packages are named as they are imported (numpy), not {', '.join(map(repr, wrong))}")
    known = {each.name: each for each in installed()}
    module_of = {module: each for each in known.values() for module in each.modules}
    missing = [name for name in names if name not in module_of]
    if missing:
        wanted = " ".join(_DISTRIBUTIONS.get(name, name) for name in missing)
        raise PackageError(
            f"the sandbox's packages ({folder()}) have no {', '.join(missing)}. Add: ares sandbox packages add {wanted}"
        )
    needed = _with_required([module_of[name] for name in names], known)
    modules = [module for each in needed for module in each.modules]
    warm = names + tuple({"numpy"} & set(modules) - set(names))
    lines = "\n".join(sorted(each.pin for each in needed))
    return Packages(
        names=warm,
        hidden=tuple(sorted(set(modules) - set(warm))),
        paths=tuple(str(each.folder.resolve()) for each in needed),
        versions=tuple(sorted(f"{each.name}=={each.version}" for each in needed)),
        digest=hashlib.sha256(lines.encode()).hexdigest()[:16],
    )


def _with_required(asked: Iterable[Distribution], known: dict[str, Distribution]) -> list[Distribution]:
    """Distributions, then those that they require."""
    needed = list(dict.fromkeys(asked))
    for each in needed:
        needed += [known[name] for name in sorted(each.required & known.keys()) if known[name] not in needed]
    return needed


def hold(packages: Packages) -> contextlib.ExitStack:
    """Keep builds from deleting the folders of these packages until what is returned is closed or the process ends."""
    held = contextlib.ExitStack()
    for path in packages.paths:
        held.enter_context(_locked(Path(path), fcntl.LOCK_SH))
    return held


@contextlib.contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    """Lock a folder as flock(2) does. Raises BlockingIOError if that would have to wait and must not."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Lets one change of the environment run at a time: others wait."""
    folder().mkdir(parents=True, exist_ok=True)
    with _locked(folder(), fcntl.LOCK_EX):
        yield


@_alone()
def add(requirements: Sequence[str]) -> list[Distribution]:
    """Add packages (`numpy`, `numpy==2.4.6`, or as they are imported: `sklearn`); those installed keep their versions.

    Returns what the environment then holds. Raises PackageError.
    """
    new = {_normal(text): text for text in (_DISTRIBUTIONS.get(each, each) for each in requirements)}
    wrong = [text for text in new.values() if not _NAME.match(text)]
    if wrong:
        raise PackageError(f"not names of packages: {', '.join(map(repr, wrong))}")
    asked, before = _read_lock()
    wanted = {**{_normal(text): text for text in asked}, **new}
    fixed = [f"{each.name}=={each.version}" for each in before if each.name not in new]
    return _build(list(wanted.values()), _resolve(list(wanted.values()), fixed))


@_alone()
def add_locked(lock: Path) -> list[Distribution]:
    """Replace the environment by that of a lock file from another machine. Raises PackageError, OSError."""
    asked, pins = _parse(lock.read_text())
    if not pins:
        raise PackageError(f"{lock} locks nothing")
    return _build(asked, pins)


@_alone()
def remove(names: Sequence[str]) -> list[Distribution]:
    """Remove packages and what only they required; one that others require stays. Raises PackageError if not there."""
    asked, before = _read_lock()
    gone = {_normal(_DISTRIBUTIONS.get(name, name)) for name in names}
    absent = gone - {_normal(text) for text in asked}
    if absent:
        held = ", ".join(sorted(map(_normal, asked))) or "nothing"
        raise PackageError(f"not among the packages asked for ({held}): {', '.join(sorted(absent))}")
    known = {each.name: each for each in before}
    kept = [text for text in asked if _normal(text) not in gone]
    needed = _with_required([known[_normal(text)] for text in kept], known)
    return _build(kept, [each for each in before if each in needed])


def _normal(text: str) -> str:
    """The distribution's name in a requirement, normalized for comparison."""
    name = _NAME.match(text.strip())
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else text


# The lock


def _read_lock() -> tuple[list[str], list[Distribution]]:
    try:
        return _parse((folder() / LOCK).read_text())
    except FileNotFoundError:
        return [], []


def _parse(text: str) -> tuple[list[str], list[Distribution]]:
    """(what was asked for, the distributions) of a lock's text. Raises PackageError."""
    asked: list[str] = []
    distributions = []
    for line in text.replace("\\\n", " ").splitlines():
        pin = " ".join(line.split())
        if line.startswith(_ASKED):
            asked = [name for name in line.removeprefix(_ASKED).split(", ") if name]
        elif pin and not pin.startswith("#"):
            if (found := _PIN.fullmatch(pin)) is None:
                raise PackageError(f"not a line of a lock file, which pins a version and its hashes: {line:.80}")
            distributions.append(Distribution(_normal(found[1]), found[2], pin))
    return asked or [each.name for each in distributions], sorted(distributions, key=lambda each: each.name)


def _build(asked: list[str], pins: list[Distribution]) -> list[Distribution]:
    """Install what is locked and missing, write the lock, and remove what is no longer in it.

    Folders that pools of this machine hold stay until a later build.
    """
    place, building = folder(), folder() / "lib" / "building"
    building.parent.mkdir(parents=True, exist_ok=True)
    place.chmod(0o755)  # workers run as other users
    for pin in pins:
        if not pin.folder.is_dir():  # it then is there completely, or not at all
            shutil.rmtree(building, ignore_errors=True)
            _pip(pin.pin, "--no-deps", "--require-hashes", "--target", str(building), "-r", "/dev/stdin")
            building.replace(pin.folder)
    new = place / f"{LOCK}.new"
    new.write_text(f"{_ASKED}{', '.join(asked)}\n" + "".join(f"{pin.pin}\n" for pin in pins))
    new.replace(place / LOCK)
    for path in building.parent.iterdir():
        if path not in {pin.folder for pin in pins}:
            with contextlib.suppress(BlockingIOError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(path)
    return pins


def _resolve(requirements: list[str], fixed: list[str]) -> list[Distribution]:
    """Everything that the requirements need, pinned with hashes; what is fixed keeps its version if it is needed."""
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-", "-c", "/dev/stdin"]
    lines = []
    for item in json.loads(_pip("\n".join(fixed), *options, *requirements))["install"]:
        metadata, hashes = item["metadata"], item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" not in hashes:
            raise PackageError(f"{metadata['name']} comes without a hash")
        lines.append(f"{metadata['name']}=={metadata['version']} --hash=sha256:{hashes['sha256']}")
    return _parse("\n".join(lines))[1]


def _pip(given: str, *arguments: str) -> str:
    """The output of `pip install` for wheels only. given: what it finds in /dev/stdin. Raises PackageError."""
    if importlib.util.find_spec("pip") is None:
        raise PackageError(
            "installing packages takes pip, which is not here: python -m ensurepip, or uv pip install pip"
        )
    command = [sys.executable, "-m", "pip", "install", "--only-binary", ":all:", *arguments]
    # What it writes is for workers of other users, too.
    done = subprocess.run(command, capture_output=True, text=True, input=given, umask=0o022)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise PackageError("\n".join(["the packages cannot be installed:", *lines[-6:]]))
    return done.stdout
