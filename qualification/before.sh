#!/usr/bin/env bash
# The programs of the version before this one, into target/before/debug: tests/it/versions.rs runs them with ours.
# It is built once; what both versions depend on is compiled for both at once.
set -euo pipefail
cd "$(dirname "$0")/.."

commit=fcf04def820cb9bc12d02879d9e4dd7837aedcfc # 0.1.0
before=target/before

if [ "$(cat "$before/commit" 2>/dev/null)" = "$commit" ]; then
  exit 0
fi
# Where they cannot be had (a clone without history, no registry) the story does not run; a build that fails is a failure.
absent() {
  mkdir -p "$before"
  echo "$1" | tee "$before/absent" >&2
  exit 1
}
has() { git -c safe.directory='*' cat-file -e "$commit^{commit}" 2>/dev/null; }
if ! has; then
  git -c safe.directory='*' fetch --quiet --depth 1 origin "$commit" 2>/dev/null || true
fi
rm -rf "$before"
has || absent "commit $commit is not in this clone; git fetch --unshallow brings it"
mkdir -p "$before/tree"
git -c safe.directory='*' archive "$commit" | tar -x -C "$before/tree"
manifest=$before/tree/Cargo.toml
qualification/cargo.sh fetch --quiet --locked --manifest-path "$manifest" || absent "the crates of 0.1 cannot be fetched"
shared=${CARGO_BUILD_BUILD_DIR:-${CARGO_TARGET_DIR:-$PWD/target}}
env CARGO_BUILD_BUILD_DIR="$shared" CARGO_TARGET_DIR="$PWD/$before" qualification/cargo.sh build --quiet --locked \
  --manifest-path "$manifest" -p lucia-agent -p lucia-controller -p lucia-worker -p luciactl --bins
rm -rf "$before/tree"
echo "$commit" >"$before/commit"
