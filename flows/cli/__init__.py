"""The command `ares`: a module a command group, put together in `main`."""
