#!/usr/bin/env bash
# make fuzz TARGET=name SECONDS=n: libFuzzer over one target, from its seeds and what earlier runs found.
# Builds with the toolchain of the workspace; needs a C++ compiler, and no nightly.
set -euo pipefail
cd "$(dirname "$0")"

target=${1:?a target: the folders of seeds}
seconds=${2:-60}
host=$(rustc -vV | sed -n 's/^host: //p')
out=$(realpath -m "${CARGO_TARGET_DIR:-../../target}/fuzz")
corpus=$out/corpus/$target
mkdir -p "$corpus" "$out/found"

# What `cargo fuzz` sets, without a sanitizer: there is no unsafe code of ours to watch. With --target, build scripts
# and macros are not instrumented.
sancov=-Cllvm-args=-sanitizer-coverage
RUSTFLAGS="-Cpasses=sancov-module $sancov-level=4 $sancov-inline-8bit-counters $sancov-pc-table $sancov-trace-compares --cfg fuzzing" \
  CARGO_TARGET_DIR=$out cargo build --quiet --release --target "$host"

seeds=(seeds/"$target")
case $target in
json | report | queue | bundle) seeds+=(../vectors) ;;
intent | roster | freshness | proof | sign-in | owner-queue) seeds+=(../vectors/owners-v1) ;;
esac
FUZZ_TARGET=$target exec "$out/$host/release/fuzz" "$corpus" "${seeds[@]}" -dict=dictionary -max_len=16384 -timeout=20 \
  -rss_limit_mb=1024 -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$out/found/$target-" "${@:3}"
