"""The error whose message is written for the user. The lowest module of ares: everything may import it.

The command line prints such an error without a trace and ends with exit code 2 (flows/cli/main.py); any other error is
a defect of ours and keeps its trace. Not covered: the sandbox's own SandboxUnavailable, which imports nothing of ares.
"""


class UserError(Exception):
    """What the user gave cannot be used, or the machine cannot do it; the message says what to change."""
