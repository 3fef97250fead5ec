#!/usr/bin/env bash
# Runs every check of the sources, to the end even where one fails; the exit status says whether all passed.
# Usage: lint.sh PYTHON
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
python=$1
status=0
"$python" -m ruff check . || status=1
"$python" -m ruff format --check . || status=1
"$python" -m mypy || status=1
exit "$status"
