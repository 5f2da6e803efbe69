# Sourced by the scripts beside this folder: makes .venv and installs this project into it.
# shellcheck shell=sh

# Say what went wrong and stop.
fail() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# Print the newest suitable interpreter.
find_python() {
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer is needed; install it, or name it with PYTHON=/path/to/python3"
}

# Make .venv if there is none, and install the project with the given extras when its requirements changed.
prepare_venv() { # [extras, as in "[test]"]
  if [ ! -x .venv/bin/python ]; then
    python="$(find_python)" || exit 1
    # Debian ships Python without ensurepip, and venv then fails with a long text or leaves half an environment.
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
      fail "$python cannot make virtual environments; on Debian and Ubuntu run: apt-get install python3-venv"
    echo "Making .venv with $python"
    "$python" -m venv .venv || fail "$python could not make .venv"
  fi
  wanted="$(cksum pyproject.toml | cut -d ' ' -f 1) ${1:-}"
  if [ "$(cat .venv/.installed 2>/dev/null)" != "$wanted" ]; then
    echo "Installing openmanus-rl${1:-} into .venv"
    # Uncompiled: Python compiles what is imported, once; all that is installed would take half a minute and more.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".${1:-}" ||
      fail "pip could not install the project; its own message is above"
    echo "$wanted" > .venv/.installed
  fi
}
