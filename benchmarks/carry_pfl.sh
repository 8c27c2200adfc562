#!/bin/sh
# pfl-research 0.6.0 as a folder of plain files, for a machine that has torch, numpy and scipy but
# on which nothing can be installed:
#
#     benchmarks/carry_pfl.sh DEST [PYTHON_VERSION]      # 3.12 unless told
#     PYTHONPATH=DEST:src python -m benchmarks.pfl_task ...   # there
#
# dm-tree, wrapt and multiprocess differ between Python versions, hence the second argument.
set -eu
dest=${1:?where to?}
python=${2:-3.12}
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# Without their dependencies, of which torch would be one.
python3 -m pip download --quiet --dest "$wheels" --no-deps --only-binary=:all: \
  --python-version "$python" \
  pfl==0.6.0 dp-accounting==0.5.1 prv-accountant==0.2.0 multiprocess==0.70.19 dill==0.4.1 \
  absl-py==1.4.0 attrs==23.2.0 dm-tree==0.1.10 wrapt==2.5.2 packaging==25.0

rm -rf "$dest"
mkdir -p "$dest"
for wheel in "$wheels"/*.whl; do
  python3 -m zipfile -e "$wheel" "$dest"
done
# Tests are most of the bulk, and no one runs them there.
find "$dest" -type d -name tests -prune -exec rm -rf {} +
find "$dest" -name '*_test.py' -delete
du -sh "$dest"
