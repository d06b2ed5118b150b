#!/usr/bin/env bash
# Holds the collection to Ansible's own sanity tests: collection_sanity.sh BIN CACHE [word for ansible-test]...
# BIN has ansible-test; CACHE keeps what it installs for itself, so that only the first run is slow.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$(realpath --no-symlinks "$1")
mkdir -p "$2"
HOME=$(realpath "$2")
shift 2
export HOME PATH="$bin:$PATH"

python=$("$bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
pip=$("$bin/python" - "$python" <<'PYTHON'
import sys
from types import SimpleNamespace

from ansible_test._internal.python_requirements import get_venv_packages

print(get_venv_packages(SimpleNamespace(version=sys.argv[1]))["pip"].replace(".", "_"))
PYTHON
)
mkdir -p "$HOME/.ansible/test/cache"
cp "$root/.make/pip_from_python.py" "$HOME/.ansible/test/cache/get_pip_$pip.py"

cd "$root/collections/ansible_collections/llmgw/fleet"
exec ansible-test sanity --local --python "$python" --color no "$@"
