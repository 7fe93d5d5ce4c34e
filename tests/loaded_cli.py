# ruff: noqa: F401, E402
"""What training commands and their workers import, loaded once for all that are forked from here."""

import os

os.environ["COLUMNS"] = "200"  # consoles are made, and ask for it, when their module is imported

from tests.forked_workers import fork_when_asked, serve

listener = serve()
import ares.engines
import ares.grading
import ares.learner
import ares.models

fork_when_asked(listener)

import mlflow.store.tracking.sqlalchemy_store
import ray

import flows.ablate
import flows.cli.main
import flows.evaluate
import flows.train
