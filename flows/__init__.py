"""The order of work and its failure policy: Prefect flows, and the command line."""

import flows.environment  # before Prefect, Ray or MLflow, which read their settings at import
