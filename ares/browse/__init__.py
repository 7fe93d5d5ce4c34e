"""A local page over all steps of runs: their tree, curves, and the samples behind each point.

Covered: reading what the page shows (runs.py, samples.py), serving it on this machine or writing it as a
folder (pages.py), the page itself (assets/). Nothing is written to a run. Not covered: training, MLflow's UI.
"""

from ares.browse.pages import serve, write_folder
