"""A package environment for tests, made from the files of packages installed for this interpreter; and wheels."""

import base64
import hashlib
import importlib.metadata
import os
import shutil
import zipfile
from pathlib import Path

from sandbox import packages


def copy_installed(root: Path, names: tuple[str, ...]) -> None:
    """Fill the environment below `root` with installed distributions and what they require, as a build would."""
    os.environ[packages.VARIABLE] = str(root)
    place = packages.folder()
    lines, waiting = [f"# asked for: {', '.join(names)}"], list(names)
    for name in waiting:
        distribution = importlib.metadata.distribution(name)
        record = hashlib.sha256((distribution.read_text("RECORD") or "").encode()).hexdigest()
        lines.append(f"{distribution.name}=={distribution.version} --hash=sha256:{record}")
        _, (pin,) = packages._parse(lines[-1])
        for file in distribution.files or ():
            if not {"..", "tests"} & set(file.parts):
                target = pin.folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), target)  # with its time, or its bytecode would be compiled again
        waiting += sorted(pin.required - set(waiting))
    (place / packages.LOCK).write_text("\n".join(lines) + "\n")
    for path in (root, *root.parents):  # for workers of other users
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o755)


def make_wheel(folder: Path, name: str, version: str, text: str, requires: tuple[str, ...] = ()) -> Path:
    """A wheel with one module."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        f"{name}.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for file, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        record += f"{file},sha256={digest},{len(content.encode())}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, content)
    return path
