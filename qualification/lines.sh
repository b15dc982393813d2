#!/usr/bin/env bash
# make lines: lines of Rust in the programs and their libraries, without blanks, comments and what only tests compile.
set -euo pipefail
cd "$(dirname "$0")/.."

crates=(proto/src proto/daemon/src proto/durable/src proto/manual/src proto/people/src agent/src controller/src controller/ctl/src worker/src)

# Files and folders of modules that stand under a cfg that names tests.
of_tests() {
  awk '
    /^ *#\[cfg\(.*(test|test-support)/ {held = 1; next}
    held && /^ *#\[/ {next}
    held && match($0, /^ *(pub(\([a-z: ]+\))? )?mod [a-z_0-9]+;/) {
      name = $0; sub(/;.*/, "", name); sub(/.*mod /, "", name)
      dir = FILENAME
      if (dir ~ /\/(mod|lib|main)\.rs$/) sub(/\/[a-z]+\.rs$/, "", dir); else sub(/\.rs$/, "", dir)
      print dir "/" name ".rs"; print dir "/" name "/"
    }
    {held = 0}' "$@"
}

total=0
for crate in "${crates[@]}"; do
  [ -d "$crate" ] || continue
  mapfile -t files < <(find "$crate" -name '*.rs' | sort)
  mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -vFf <(of_tests "${files[@]}"))
  lines=$(awk '
    FNR == 1 {rest = held = 0}
    rest {next}
    /^#\[cfg\(test\)\]/ {held = 1; next}
    held && /^mod tests \{/ {rest = 1; next}
    {held = 0}
    !/^[ \t]*(\/\/.*)?$/ {n++}
    END {print n + 0}' "${files[@]}")
  printf '%7d  %s\n' "$lines" "$crate"
  total=$((total + lines))
done
printf '%7d  lines of code\n' "$total"
