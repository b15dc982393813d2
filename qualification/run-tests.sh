#!/usr/bin/env bash
# make test: builds the binaries, runs every test, and closes with one line that counts them all.
# A test that cannot run on this machine leaves a note in target/test-skips and is counted as skipped;
# under CI=true a skipped test is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

notes=target/test-skips
log=target/test.log
rm -rf "$notes"
mkdir -p "$notes"

cargo=qualification/cargo.sh
$cargo build --workspace --bins
qualification/before.sh || true # where it cannot be built its story is skipped, and counted
$cargo test --workspace --no-run --quiet || true # what does not compile is told and counted below
status=0
# Bounded: a test that hangs must end as a failure that the log can name, not as a build that never ends.
timeout --foreground 50m $cargo test --workspace --no-fail-fast 2>&1 | tee "$log" || status=$?
if [ "$status" = 124 ]; then
  echo 'the tests did not end within 50 minutes; the last lines of target/test.log tell which one hung' >&2
fi

# "test result: ok. 12 passed; 0 failed; 0 ignored; ..." once for each test binary
count() { awk -v word="$1" '/^test result:/ {for (i = 2; i <= NF; i++) if ($i ~ "^" word) n += $(i - 1)} END {print n + 0}' "$log"; }
passed=$(count passed)
failed=$(count failed)
skipped=$(find "$notes" -type f | wc -l)
skipped_by_harness=$(count ignored)
passed=$((passed - skipped))
skipped=$((skipped + skipped_by_harness))

# What failed, once more and together: the log of a whole run is longer than what many places keep of it.
awk '/^---- .* stdout ----$/ {n = 12; print ""} n > 0 && lines++ < 200 {print; n--} / panicked at / && n < 5 {n = 5}' "$log"

# A binary that did not compile or died has no result line of its own.
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
  failed=1
fi
if [ "$skipped" != 0 ]; then
  find "$notes" -type f -exec cat {} + | sed 's/^/skipped: /'
fi
if [ "$skipped" = 0 ]; then
  echo "$passed passed, $failed failed"
else
  echo "$passed passed, $failed failed, $skipped skipped"
fi
[ "$failed" = 0 ] || exit 1
if [ "$skipped" != 0 ] && [ "${CI:-}" = true ]; then
  echo 'under CI=true a skipped test is a failure' >&2
  exit 1
fi
