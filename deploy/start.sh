#!/usr/bin/env bash
# The first process of a container: prints how programs are isolated in it, then execs the command.
set -euo pipefail
if ! ares sandbox probe >&2; then
  echo "Runs that judge programs are refused in this container; docs/sandbox.md, Containers, has its options." >&2
fi
exec "$@"
