#!/usr/bin/env bash
# make invert: undoes each check of tests/inversions.txt, in a copy of the tree, and expects a test to fail.
# make mutants FILES="proto/src/pki/csr.rs ...": every mutant of these files.
set -euo pipefail
cd "$(dirname "$0")/.."

version=27.1.0
target=${CARGO_TARGET_DIR:-target}
tools=$target/tools/bin
if ! "$tools/cargo-mutants" mutants --version 2>/dev/null | grep -qF " $version"; then
  echo "mutants: building cargo-mutants $version" >&2
  cargo install --quiet --locked --root "$target/tools" "cargo-mutants@$version"
fi

mutants() { nice "$tools/cargo-mutants" mutants --no-times "$@"; }
quoted() { printf '%s' "$1" | sed 's/[][\.*^$+?(){}|]/\\&/g'; }

if [ $# -gt 0 ]; then
  mutants --output "$target" "${@/#/--file=}" -- --lib
  exit
fi

named=()
chosen=()
while read -r file function value; do
  case $file in '' | '#'*) continue ;; esac
  name="^$(quoted "$file"):[0-9:]+ replace $(quoted "$function") (-> .* )?with $(quoted "$value")\$"
  found=$(mutants --list --file "$file" --re "$name" | grep -cE "$name") || true
  if [ "$found" != 1 ]; then
    echo "tests/inversions.txt: $file has $found functions $function that can return $value; correct the row" >&2
    exit 65
  fi
  named+=("$name")
  chosen+=(--file "$file" --re "$name")
done <tests/inversions.txt

# cargo-mutants 27 takes deleted fields whatever --re says, so its own exit status counts these too.
mutants --output "$target" "${chosen[@]}" -- --lib || true
survived=0
for name in "${named[@]}"; do
  if ! cat "$target/mutants.out/caught.txt" "$target/mutants.out/timeout.txt" | grep -qE "$name"; then
    echo "SURVIVED $name"
    survived=$((survived + 1))
  fi
done
echo "inverted: $((${#named[@]} - survived)) caught, $survived survived"
[ "$survived" = 0 ]
