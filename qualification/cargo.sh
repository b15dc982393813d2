#!/usr/bin/env bash
# cargo, also under sudo: where root has no Rust, that of whoever called sudo. Their own checkout is built as that user,
# so that nothing of root's stays in target/ and ~/.cargo; tests and benches run as root, as container nodes need it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ] && ! cargo --version >/dev/null 2>&1; then
  home=$(getent passwd "$SUDO_UID" | cut -d: -f6)
  export HOME=$home PATH=$home/.cargo/bin:$PATH
  case "${1:-} $*" in
    test*' --no-run'* | bench*' --no-run'*) as_caller=yes ;;
    test* | bench*) as_caller=no ;;
    *) as_caller=yes ;;
  esac
  if [ $as_caller = yes ] && [ "$(stat -c %u .)" = "$SUDO_UID" ]; then
    exec setpriv --reuid "$SUDO_UID" --regid "${SUDO_GID:-$SUDO_UID}" --init-groups cargo "$@"
  fi
fi
exec cargo "$@"
