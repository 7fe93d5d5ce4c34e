"""The signatures that published code has, thin over the functions that the training loop calls."""
