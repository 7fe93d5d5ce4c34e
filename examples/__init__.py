"""Toys to try `ares` with, and code to copy: nothing of the runtime imports it.

Covers: tiny tasks with generated problems and warm-started models (examples/tiny). Does not cover: the loop.
"""
