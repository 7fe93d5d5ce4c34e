"""What isolation a worker got, whether that is enough, and what to do if it is not."""

import dataclasses

LEVELS = ("none", "standard")

# In the order of application. layer: (its purpose, how to get it)
_LAYERS = {
    "namespaces": (
        "no network, own processes, killed as a whole",
        "allow user namespaces: sysctl -w user.max_user_namespaces=15000; on Debian "
        "kernel.unprivileged_userns_clone=1; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; Docker: "
        "--user 1000 --security-opt seccomp=unconfined --security-opt apparmor=unconfined; Kubernetes: runAsUser and "
        "securityContext.seccompProfile.type=Unconfined, or capabilities.add=[SYS_ADMIN]",
    ),
    "root": (
        "a root of read-only libraries and a small /tmp; the machine's files are not there",
        "allow mounting in the namespace: Docker: --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined",
    ),
    "uid": (
        "an unprivileged user of its own per worker",
        "give the container CAP_SETUID and CAP_SETGID and install Python where every user can read it, or run as an "
        "ordinary user",
    ),
    "landlock": (
        "files can be opened only below the libraries",
        "use a kernel from 5.13 on with landlock among its lsm= modules; Docker: from 20.10.10 on",
    ),
    "seccomp": ("only harmless system calls", "use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or aarch64"),
    "rlimits": ("address space, CPU time, file size, open files", "use Linux"),
}
LAYERS = tuple(_LAYERS)


class SandboxUnavailable(RuntimeError):
    """This machine cannot isolate programs as asked. The message names the layer, the error and the remedy."""


@dataclasses.dataclass(frozen=True)
class IsolationReport:
    """Layers of a worker: those in force, and why the others are missing (layer -> (errno name, message))."""

    applied: tuple[str, ...]
    missing: dict[str, tuple[str, str]]

    def lacking(self) -> list[str]:
        """The layers to add to reach the floor: seccomp, rlimits and (Landlock or a root of its own)."""
        lacking = [layer for layer in ("seccomp", "rlimits") if layer not in self.applied]
        if "landlock" not in self.applied and "root" not in self.applied:
            lacking.append("landlock")
            if "namespaces" not in self.applied:
                lacking.append("namespaces")
        return lacking

    def require_floor(self) -> None:
        """Raise SandboxUnavailable below the floor."""
        if lacking := self.lacking():
            raise SandboxUnavailable(
                "programs cannot be isolated here (the floor is seccomp + rlimits + (Landlock or a mount namespace)):\n"
                + "".join(f"  {self.explain(layer)}\n" for layer in lacking)
                + "Pass min_isolation='none' only if every program is trusted."
            )

    def explain(self, layer: str) -> str:
        """One line on a layer: in force, or why not and the remedy."""
        if layer in self.applied:
            return f"{layer}: in force ({_LAYERS[layer][0]})"
        if layer == "uid" and layer not in self.missing:
            return "uid: not needed (the worker is not root)"
        name, message = self.missing.get(layer, ("", "not tried"))
        return f"{layer}: missing: {name} {message}. Remedy: {_LAYERS[layer][1]}"

    def summary(self) -> str:
        """The layers in force, in one phrase."""
        return "+".join(self.applied) or "nothing"
