#!/usr/bin/env bash
# `make wheels`: the wheels that a machine without a network needs for its Python and platform, less what it has.
#
# uv resolves what `make gpu` (FOR=gpu) or `make setup` on a CUDA machine (FOR=setup) installs, for that machine and with
# the versions that it has (HAS="torch==2.10.0 …"; what these need is there too). pip downloads what is missing.
set -euo pipefail
PYTHON=${PYTHON:-python3}
WHEELS=${WHEELS:-wheels}
FOR=${FOR:-gpu}
PY=${PY:-3.12}
PLATFORM=${PLATFORM:-manylinux_2_28_x86_64}
HAS=${HAS:-}
[[ $PLATFORM =~ ^manylinux_2_([0-9]+)_([a-z0-9_]+)$ ]] || { echo "make wheels: PLATFORM=$PLATFORM is not manylinux_2_N_MACHINE" >&2; exit 1; }
newest=${BASH_REMATCH[1]} machine=${BASH_REMATCH[2]}
known=17 # to uv
for each in 28 {31..40}; do if [ "$each" -le "$newest" ]; then known=$each; fi; done

uv=$(command -v uv || command -v .wheels-tools/bin/uv || true)
if [ -z "$uv" ]; then
  "$PYTHON" -m pip install --quiet --disable-pip-version-check --target .wheels-tools uv
  uv=.wheels-tools/bin/uv
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

asked=(--group gpu)
if [ "$FOR" = setup ]; then
  echo "setuptools>=77" >"$scratch/build.txt"
  asked=(pyproject.toml --extra dev --extra vllm "$scratch/build.txt")
fi
touch "$scratch/has.txt" "$scratch/uv.toml"
for each in $HAS; do
  version=${each%%+*} name=${each%%==*} # a build (+cu130) has the dependents of its version
  echo "$version" >>"$scratch/has.txt"
  printf '[[dependency-metadata]]\nname = "%s"\nrequires-dist = []\n' "$name" >>"$scratch/uv.toml"
  asked+=(--no-emit-package "$name")
done
"$uv" --config-file "$scratch/uv.toml" --no-python-downloads pip compile "${asked[@]}" --constraint "$scratch/has.txt" --quiet \
  --python-version "$PY" --python-platform "$machine-manylinux_2_$known" --only-binary :all: --output-file "$scratch/wanted.txt"

platforms=()
for number in $(seq "$newest" -1 5); do platforms+=(--platform "manylinux_2_${number}_$machine"); done # pip tries what it is told
"$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
  --python-version "$PY" "${platforms[@]}" --platform "manylinux2014_$machine" --dest "$WHEELS" --requirement "$scratch/wanted.txt"
echo "$(find "$WHEELS" -name '*.whl' | wc -l) wheels, $(du -sh "$WHEELS" | cut -f1), in $WHEELS"
