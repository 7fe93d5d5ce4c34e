"""Signatures of the published code, as thin wrappers around the functions the training loop calls."""
