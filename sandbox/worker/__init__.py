"""What runs inside a worker process: the zygote, the checkers and candidates it forks, what confines them.

Imported only by the worker's own interpreter (`-s -S -P`), under the package name `worker`; stdlib only.
"""
