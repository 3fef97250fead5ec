#!/usr/bin/env bash
# Makes .venv, or brings it up to date, with the versions in constraints.txt. `make setup` runs it when one of the files
# it depends on is newer than .venv/.complete, which is written last: an interrupted installation is taken up again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'make setup: %s\n' "$*" >&2
    exit 2
}

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "needs Python 3.11, 3.12 or 3.13; python3 is $(python3 --version 2>/dev/null || echo 'not installed')"
}

check_compiler() {
    command -v "${CXX:-g++}" >/dev/null || command -v clang++ >/dev/null ||
        echo "make setup: no C++ compiler found (on Debian: apt-get install g++). All works without one except torch_compile." >&2
}

make_environment() {
    local python
    python=$(find_python)
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$python lacks the module venv (on Debian and Ubuntu: apt-get install python3-venv)"
    echo "make setup: making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

install_packages() {
    echo "make setup: installing PyTorch and the rest into .venv; the first time this fetches about 3 GB and takes minutes"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,dev]' ||
        fail "the installation did not finish; the message above says why. Run it again to go on from here"
}

check_compiler
.venv/bin/python -m pip --version >/dev/null 2>&1 || make_environment
install_packages
touch .venv/.complete
echo "make setup: ready. Next: make bench WORKLOAD=resnet50"
