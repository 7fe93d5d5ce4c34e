"""Servers: a run's own Prefect API, the services of `ares up`, the deployments."""

POOL = "ares"
"""The work pool of the deployments."""
