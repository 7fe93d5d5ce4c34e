"""Benchmarks of learner and engines on one GPU: `python -m benchmarks.gpu`, or `make gpu`, which runs tests first.

Covered: times, peak memory and shares of the device's peak for models of random weights, as gpu.json and gpu.md. Not
covered: several GPUs, learning.
"""
