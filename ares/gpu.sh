#!/usr/bin/env bash
# `make gpu`: the tests marked gpu, then benchmarks.gpu, with a Python of this machine whose torch sees a CUDA device.
#
# That is the environment of `make setup` ($VENV) or else $PYTHON. What it lacks is unpacked beside it, into
# .gpu-packages, from the folder $WHEELS (`make wheels` on another machine); none of its own packages is replaced.
# TINY=1: on the CPU with small stand-ins, to try it.
set -euo pipefail
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
NEEDED="fsspec numpy pandas PIL pyarrow pydantic pytest safetensors tensordict torch transformers yaml"

sees="import torch"
if [ -z "${TINY:-}" ]; then sees="import torch; raise SystemExit(not torch.cuda.is_available())"; fi
found=
for candidate in "$VENV/bin/python" "$PYTHON"; do
  if "$candidate" -c "$sees" >/dev/null 2>&1; then found=$candidate; break; fi
done
if [ -z "$found" ]; then
  echo "make gpu: there is no CUDA device, or neither $VENV/bin/python nor $PYTHON has a torch that sees it" >&2
  exit 1
fi

export PYTHONPATH=$PWD
if [ -n "${WHEELS:-}" ]; then
  rm -rf .gpu-packages
  "$found" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target .gpu-packages "$WHEELS"/*.whl
fi
if [ -d .gpu-packages ]; then PYTHONPATH=$PWD:$PWD/.gpu-packages; fi
lacks=$("$found" -c "
import importlib.util, sys
print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])" $NEEDED)
if [ -n "$lacks" ]; then
  echo "make gpu: $found lacks $lacks: install them there, or make wheels on a machine with a network, then make gpu WHEELS=wheels" >&2
  exit 1
fi

echo "make gpu: with $found"
status=0
"$found" -m pytest tests/gpu -m "$([ -n "${TINY:-}" ] && echo "not gpu and not slow" || echo gpu)" -rs || status=$?
"$found" -m benchmarks.gpu ${TINY:+--device cpu --tiny} ${OUT:+--out "$OUT"}
exit "$status"
