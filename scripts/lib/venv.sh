# Sourced by the scripts beside this folder: makes virtual environments and installs this project into them.
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

# Make a virtual environment if there is none.
make_venv() { # folder
  [ ! -x "$1/bin/python" ] || return 0
  python="$(find_python)" || exit 1
  # Debian ships Python without ensurepip, and venv then fails with a long text or leaves half an environment.
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python cannot make virtual environments; on Debian and Ubuntu run: apt-get install python3-venv"
  echo "Making $1 with $python"
  "$python" -m venv "$1" || fail "$python could not make $1"
  # It is nobody's code: neither git nor the linters look into it.
  echo '*' > "$1/.gitignore"
}

# Install the project with the given extras when its requirements changed.
install_project() { # folder extras, as in "[test]" [further arguments of pip]...
  folder="$1"
  extras="$2"
  shift 2
  wanted="$(cksum pyproject.toml | cut -d ' ' -f 1) $extras"
  if [ "$(cat "$folder/.installed" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing openmanus-rl$extras into $folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".$extras" "$@" ||
      fail "pip could not install the project; its own message is above"
    echo "$wanted" > "$folder/.installed"
  fi
}

# Make .venv if there is none, and install the project with the given extras when its requirements changed.
prepare_venv() { # [extras, as in "[test]"]
  make_venv .venv
  # Uncompiled: Python compiles what is imported, once; all that is installed would take half a minute and more.
  install_project .venv "${1:-}" --no-compile
}
