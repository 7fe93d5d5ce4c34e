"""What confines the processes of one worker: which layers are in force, which are missing and why.

`Confinement.enter()` applies what holds for the whole worker (namespaces, the new root), once. The zygote then forks
checkers and candidates, and each calls `confine_*` on itself before it reads anything.
"""

import dataclasses
import errno
import os
import resource
import signal
from collections.abc import Callable, Sequence

from . import kernel, landlock, namespaces, seccomp, syscalls

_NOBODY = 65534
_MAX_FILE_BYTES = 16 << 20
_MAX_OPEN_FILES = 64
_MAX_THREADS = 512


@dataclasses.dataclass
class Confinement:
    """Layers of one worker. applied: names of layers; missing: layer -> (errno name, message)."""

    packages: list[str] = dataclasses.field(default_factory=list)  # folders that programs may import from, too
    applied: list[str] = dataclasses.field(default_factory=list)
    missing: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    own_pids: int | None = None  # a descriptor of the worker's PID namespace
    uids: tuple[int, int] | None = None  # of candidates, of checkers
    mapped: int = 0  # bytes of address space that every fork starts with
    # Two users that no other worker shares: RLIMIT_NPROC counts per user, and a user may signal its own processes.
    _own_uids: tuple[int, int] = dataclasses.field(default_factory=lambda: _uids_of(os.getpid()))
    _rulesets: dict[bool, int] = dataclasses.field(default_factory=dict)  # by whether it is a checker's
    _readable: list[str] = dataclasses.field(default_factory=list)
    _filters: dict[bool, bytes] = dataclasses.field(default_factory=dict)

    def enter(self, wanted: set[str]) -> None:
        """Apply the worker-wide layers among those wanted and note which are missing.

        Forks when it enters a PID namespace: the caller continues in the child, which is the first process there.
        Raises OSError where the numbers of system calls are not known.
        """
        syscalls.machine()
        self._readable = namespaces.library_paths()
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)  # every fork inherits it: exec gains no privileges
        if "namespaces" in wanted:
            self._try("namespaces", self._enter_namespaces)
        if "root" in wanted and "namespaces" in self.applied:
            self._try("root", lambda: namespaces.enter_new_root(self.packages))
            if "root" in self.applied:
                self.packages = [namespaces.inside(path) for path in self.packages]
        elif "root" in wanted:
            self.missing["root"] = ("EPERM", "needs namespaces")
        self._readable += self.packages
        if "uid" in wanted and os.geteuid() == 0:
            self._try("uid", self._choose_uids)
        if "landlock" in wanted:
            self._try("landlock", self._create_rulesets)
        if "seccomp" in wanted:
            self._try("seccomp", self._check_seccomp)
        if "rlimits" in wanted:
            self.applied.append("rlimits")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # every fork inherits it: the same user cannot read its memory

    def _try(self, layer: str, apply: Callable[[], None]) -> None:
        try:
            apply()
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, type(error).__name__)
            where = f" ({error.filename})" if error.filename else ""
            self.missing[layer] = (name, f"{error.strerror or error}{where}")
        else:
            self.applied.append(layer)

    def _enter_namespaces(self) -> None:
        if os.geteuid() == 0:
            kernel.call("unshare", namespaces.EVERYTHING)  # never a user namespace that is mapped to real root
        else:
            namespaces.enter_user_namespace()
        _continue_as_first_process()
        self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def _choose_uids(self) -> None:
        """Find a uid that this user namespace maps and that can still import, trying each in a child."""

        def read_libraries() -> None:
            _become(uids[0])
            for place in (os.path.dirname(os.__file__), *self.packages):
                os.listdir(place)

        for uids in (self._own_uids, (_NOBODY, _NOBODY)):
            error = _try_in_child(read_libraries)
            if error == 0:
                self.uids = uids
                return
        raise OSError(error, os.strerror(error), "setresuid, then reading the standard library and packages")

    def _check_seccomp(self) -> None:
        for is_checker in (False, True):  # here once, for all later forks
            # A checker may signal nobody, a candidate only itself: process 1 of its PID namespace, if it has one.
            pid = None if is_checker else 1 if self.own_pids is not None else seccomp.ANY_PID
            has_files = "root" in self.applied and not is_checker
            self._filters[is_checker] = seccomp.build_filter(pid, may_receive_fds=is_checker, has_files=has_files)
        error = _try_in_child(lambda: seccomp.install(self._filters[False]))
        if error:
            raise OSError(error, os.strerror(error), "seccomp")

    def _create_rulesets(self) -> None:
        readable, writable, listed = self._readable, ["/tmp"], []
        if "root" not in self.applied:
            # Installed packages are visible then. The interpreter's own directory cannot be listed: what may be
            # imported from it was looked up before.
            readable, writable = namespaces.without(readable, namespaces.package_paths()), []
            listed = [path for path in namespaces.SYSTEM_LIBRARIES if path not in readable]
        checkers = landlock.make_ruleset(readable, [], listed)
        self._rulesets = {False: landlock.make_ruleset(readable, writable, listed), True: checkers}

    def limit_own_resources(self) -> None:
        """For the zygote, before the first job: limits that suit all its forks, which inherit them."""
        if "rlimits" in self.applied:
            limits = {
                resource.RLIMIT_NOFILE: _MAX_OPEN_FILES,
                resource.RLIMIT_CORE: 0,
                resource.RLIMIT_MEMLOCK: 0,
                resource.RLIMIT_MSGQUEUE: 0,
            }
            if self.uids is not None:  # nobody else's threads count, and ours do not while it is root
                limits[resource.RLIMIT_NPROC] = _MAX_THREADS
            _set_limits(limits)

    def prepare_candidate(self) -> None:
        """Called by the zygote before it forks a candidate: an empty /tmp and a PID namespace of its own."""
        if "root" in self.applied:
            if namespaces.renew_tmp(belongs_to_candidates=self.uids is None) and self._rulesets:
                os.close(self._rulesets[False])
                self._rulesets[False] = landlock.make_ruleset(self._readable, ["/tmp"])
            os.utime("/tmp", (0, 0))  # its change time would reveal whether the candidate before wrote to it
        self.stay_in_own_pids()
        if self.own_pids is not None:
            kernel.call("unshare", kernel.CLONE_NEWPID)  # works once, until setns() takes it back

    def stay_in_own_pids(self) -> None:
        """Called by the zygote before it forks a checker, which is to be in its own PID namespace."""
        if self.own_pids is not None:
            kernel.call("setns", self.own_pids, kernel.CLONE_NEWPID)

    def confine_user(self, is_checker: bool, fds: Sequence[int]) -> None:
        """First half, before any input is read: user, capabilities, files.

        fds: become descriptors 0, 1, …, and no other stays open. None may have the number that another is to get.
        """
        if self._rulesets:
            landlock.restrict(self._rulesets[is_checker])
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.closerange(len(fds), 4096)
        if "root" in self.applied and not is_checker:
            os.chdir("/tmp")  # for relative file names
        if self.uids is None:
            kernel.drop_capabilities()  # of the user namespace, or of a root that cannot change its user
        else:
            _become(self.uids[is_checker])
        if self.own_pids is None:
            # After the change of user, which clears it. With a PID namespace an orphan ends with the namespace.
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)

    def confine_calls(self, is_checker: bool, memory_bytes: int, cpu_seconds: int) -> None:
        """Second half, before any untrusted code runs: resource limits and the system-call filter."""
        if "rlimits" in self.applied:
            limits = {
                # Address space, not RLIMIT_DATA, which misses shared mappings.
                resource.RLIMIT_AS: self.mapped + memory_bytes,
                # Only now: a script's input was put into a file before, and may be larger.
                resource.RLIMIT_FSIZE: _MAX_FILE_BYTES,
                # The first process of a PID namespace ignores SIGXCPU, so soft = hard: the kernel sends SIGKILL.
                resource.RLIMIT_CPU: cpu_seconds,
            }
            _set_limits(limits)
        if "seccomp" in self.applied:
            seccomp.install(seccomp.for_pid(self._filters[is_checker], os.getpid()))


def _uids_of(pid: int) -> tuple[int, int]:
    base = 2_000_000_000 + 2 * (pid % 70_000_000)
    return base, base + 1


def _try_in_child(act: Callable[[], None]) -> int:
    """The errno with which something fails that cannot be undone; 0 if it works."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except OSError as error:
            status = error.errno or 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _continue_as_first_process() -> None:
    """Continue as the first process of the new PID namespace; the parent only waits for it."""
    child = os.fork()
    if child:
        os.closerange(0, 4096)
        os.waitpid(child, 0)
        os._exit(0)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def _set_limits(limits: dict[int, int]) -> None:
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))
