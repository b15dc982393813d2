#!/usr/bin/env bash
# make invert: undoes each check of tests/inversions.txt, in a copy of the tree, and expects a test to fail.
# make mutants FILES="proto/src/csr.rs ...": every mutant of these files.
set -euo pipefail
cd "$(dirname "$0")/.."

version=27.1.0
tools=$PWD/${CARGO_TARGET_DIR:-target}/tools
if ! "$tools/bin/cargo-mutants" mutants --version 2>/dev/null | grep -qF " $version"; then
  echo "mutants: building cargo-mutants $version" >&2
  cargo install --quiet --locked --root "$tools" "cargo-mutants@$version"
fi

quoted() { sed 's/[][\.*^$+?(){}|<>&]/\\&/g' <<<"$1"; }

chosen=()
if [ $# -gt 0 ]; then
  for file in "$@"; do chosen+=(--file "$file"); done
else
  while read -r file function value; do
    case $file in '' | '#'*) continue ;; esac
    named="^$(quoted "$file"):[0-9:]+ replace $(quoted "$function") (-> .* )?with $(quoted "$value")\$"
    found=$("$tools/bin/cargo-mutants" mutants --list --file "$file" --re "$named" | wc -l)
    if [ "$found" != 1 ]; then
      echo "tests/inversions.txt: $file has $found functions $function that can return $value; bring the row up to date" >&2
      exit 65
    fi
    chosen+=(--file "$file" --re "$named")
  done <tests/inversions.txt
fi

exec nice "$tools/bin/cargo-mutants" mutants --no-times --output "${CARGO_TARGET_DIR:-target}" "${chosen[@]}" --cargo-test-arg=--lib
