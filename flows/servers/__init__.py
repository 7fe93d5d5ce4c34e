"""Servers that runs talk to: the local Prefect API, the services of `ares up`, the deployments."""

POOL = "ares"
"""The work pool of the deployments."""
