# ruff: noqa: F401
"""What a training command imports, loaded once for all commands that are forked from here (forked_commands.py)."""

import os

os.environ["COLUMNS"] = "200"  # consoles are made, and ask for it, when their module is imported

import mlflow.store.tracking.sqlalchemy_store
import ray

import flows.ablate
import flows.cli.main
import flows.evaluate
import flows.train
