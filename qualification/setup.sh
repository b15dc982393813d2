#!/usr/bin/env bash
# make setup: what the build, the tests and the demo need, by Debian packages, and the file system of a test node.
# Safe to repeat; says what it did. What is only for container nodes is told and left out where it cannot be had
# (node tests are then counted as skipped), what the build needs stops with the cure. `setup.sh demo` also stops where
# the demo cannot run, before a build of minutes; with `once` behind it, where no headless browser can drive the page.
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:-}
once=${2:-}

say() { printf 'setup: %s\n' "$*"; }

# command that shows it is there, its Debian package, what it is for
NEEDED='
gcc gcc build
make make build
ip iproute2 nodes
nsenter util-linux nodes
unshare util-linux nodes
systemd-analyze systemd units
shellcheck shellcheck units
mmdebstrap mmdebstrap nodes
/usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring nodes
/usr/include/stdio.h libc6-dev build
/usr/sbin/slapd slapd directory
ldapsearch ldap-utils directory
ssh openssh-client directory
openssl openssl directory
chromium chromium page
chromedriver chromium-driver page
certutil libnss3-tools page
'

# The recipe of the node's file system. Whoever changes a line gets a new root at the next `make setup`.
# sssd comes as Debian installs it: without a configuration it does not start and nothing is degraded.
SUITE=trixie
PACKAGES=systemd,systemd-sysv,dbus,iproute2,procps,less,netbase,iputils-ping,libnss-myhostname,sssd-ldap,libnss-sss,libpam-sss,openssh-server
recipe() {
  printf '%s\n' 2 "$SUITE" "$PACKAGES"
}

there() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

as_root() { [ "$(id -u)" = 0 ]; }

# shellcheck source=qualification/without-daemons.sh
. qualification/without-daemons.sh
# Debian's own place for it.
SAID_NO=/usr/sbin/policy-rc.d

# A directory server for the worker's tests and the demo: each starts its own, as an unprivileged user, on loopback or in
# its own network. And the client by which the demo's person logs in. slapd is wanted for its program alone: Debian
# starts a new package's daemon at once, and at each boot unless it is disabled.
directory() {
  local packages
  mapfile -t packages < <(missing_for directory)
  [ ${#packages[@]} -gt 0 ] || return 0
  without_daemons "$SAID_NO" install_packages "${packages[@]}" || return 1
  if command -v update-rc.d >/dev/null; then update-rc.d slapd disable >>target/setup.log 2>&1 || true; fi
}

# A browser for the tests of the page and for the demo: each starts its own, headless, with a profile of its own. And
# the program by which the demo's browser gets the demo's root.
page() {
  local packages
  mapfile -t packages < <(missing_for page)
  [ ${#packages[@]} -gt 0 ] || return 0
  install_packages "${packages[@]}"
}

# Installs packages, with fresh lists on a second try. Debian's own services are none of ours, so nothing is started:
# none of these packages but slapd has a daemon of its own.
install_packages() {
  if ! as_root; then
    say "missing: $*"
    say "cure: run 'sudo make setup', or as root: apt-get install $*"
    return 1
  fi
  if ! command -v apt-get >/dev/null; then
    say "missing: $*"
    say "cure: this machine has no apt-get; install the packages above by its own means, or use a Debian machine"
    return 1
  fi
  local try='apt-get install -y -q --no-install-recommends'
  export DEBIAN_FRONTEND=noninteractive
  $try "$@" >target/setup.log 2>&1 && { say "installed $*"; return 0; }
  apt-get update -q >>target/setup.log 2>&1 || true
  $try "$@" >>target/setup.log 2>&1 && { say "installed $*"; return 0; }
  say "could not install $* (target/setup.log has apt's words)"
  return 1
}

missing_for() {
  local command package purpose
  while read -r command package purpose; do
    # "if", as a last line that is not wanted must not be the status of all: errexit would leave out what comes next
    if [ "$purpose" = "$1" ] && ! there "$command"; then printf '%s\n' "$package"; fi
  done <<<"$NEEDED" | sort -u
}

# The mirror this machine already uses for Debian, empty if it has none: then mmdebstrap's own default serves.
debian_mirror() {
  command -v apt-get >/dev/null || return 0
  # shellcheck disable=SC2016  # apt-get expands these
  apt-get indextargets --format '$(LABEL) $(REPO_URI)' 2>/dev/null | awk '$1 == "Debian" && $2 ~ /^https?:/ {print $2; exit}' || true
}

bootstrap() {
  local out=$1 mirror=$2
  rm -rf --one-file-system "$out"
  # shellcheck disable=SC2016,SC2086  # $1 is mmdebstrap's; an empty mirror is no argument
  mmdebstrap --variant=minbase --mode=root --format=directory --include="$PACKAGES" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --aptopt='Apt::Install-Recommends "false"' \
    --customize-hook='echo lucia-node >"$1/etc/hostname"' \
    --customize-hook='chroot "$1" passwd -q -d root' \
    --customize-hook='chroot "$1" pam-auth-update --enable mkhomedir' \
    --customize-hook='chroot "$1" systemctl -q mask systemd-udevd.service systemd-udev-trigger.service getty.target console-getty.service' \
    "$SUITE" "$out" $mirror >>target/setup.log 2>&1
}

# Makes target/node-root once: an extracted Debian that nodes use as the lower layer of an overlay, never written to.
node_root() {
  local want start
  want=$(recipe | cksum)
  if [ -d target/node-root ] && [ "$(cat target/node-root.recipe 2>/dev/null)" = "$want" ]; then
    say "node file system is there (target/node-root)"
    return 0
  fi
  if ! as_root; then
    say 'the node file system is not made yet, and that needs root'
    say "cure: run 'sudo make setup'"
    return 1
  fi
  command -v mmdebstrap >/dev/null || return 1
  say "making the node file system: Debian $SUITE in target/node-root, about a minute, once"
  start=$SECONDS
  : >target/setup.log
  if ! { mirror=$(debian_mirror) && bootstrap target/node-root.new "$mirror"; } && ! bootstrap target/node-root.new ''; then
    rm -rf --one-file-system target/node-root.new
    say 'could not make it (target/setup.log has the words of mmdebstrap)'
    say 'cure: see that this machine reaches a Debian mirror and may mount and chroot, then run make setup again'
    return 1
  fi
  rm -f target/node-root.recipe
  rm -rf --one-file-system target/node-root
  mv target/node-root.new target/node-root
  printf '%s\n' "$want" >target/node-root.recipe
  say "made it in $((SECONDS - start)) s, $(du -sm target/node-root | cut -f1) MB"
}

# The exporter is what `make bench` compares the agent with. Unpacked, not installed: nothing of it runs on this machine.
exporter() {
  [ -x target/tools/usr/bin/prometheus-node-exporter ] && return 0
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  local dir=target/tools.new
  rm -rf $dir && mkdir -p $dir/deb
  if ! (cd $dir/deb && apt-get download -q prometheus-node-exporter >>../../setup.log 2>&1); then
    rm -rf $dir
    return 1
  fi
  dpkg-deb -x $dir/deb/*.deb $dir && rm -rf $dir/deb target/tools && mv $dir target/tools
  say 'unpacked prometheus-node-exporter in target/tools, for make bench; nothing of it was started'
}

# step-ca is packaged nowhere: built from its module where Go is, at this version, for the worker's tests.
STEP_CA=v0.30.2
step_ca() {
  [ "$(cat target/tools/step-ca.version 2>/dev/null)" = $STEP_CA ] && [ -x target/tools/step-ca ] && return 0
  command -v go >/dev/null || return 1
  say "building step-ca $STEP_CA, some minutes, once"
  mkdir -p target/tools
  GOBIN="$PWD/target/tools" GOFLAGS=-mod=mod CGO_ENABLED=0 \
    go install "github.com/smallstep/certificates/cmd/step-ca@$STEP_CA" >>target/setup.log 2>&1 || return 1
  printf '%s\n' $STEP_CA >target/tools/step-ca.version
  callers target/tools
  say 'built step-ca in target/tools; nothing of it was started'
}

# What calls the controller's API in a test: Schemathesis with all it needs, each by its hash, in an environment of its
# own. The recipe is written last: an environment without it is made anew.
schemathesis() {
  local want dir=target/schemathesis
  want=$(cksum <qualification/schemathesis.txt)
  [ "$(cat $dir/recipe 2>/dev/null)" = "$want" ] && [ -x $dir/bin/schemathesis ] && return 0
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    install_packages python3 python3-venv || return 1
  fi
  say 'making target/schemathesis with Python packages, less than a minute, once'
  rm -rf --one-file-system $dir
  if ! { python3 -m venv $dir && timeout 600 $dir/bin/pip install -q --disable-pip-version-check --only-binary :all: \
    --require-hashes -r qualification/schemathesis.txt; } >>target/setup.log 2>&1; then
    rm -rf --one-file-system $dir
    return 1
  fi
  printf '%s\n' "$want" >$dir/recipe
  callers $dir
}

# axe-core, which looks in a test whether everybody can use the page: by npm where that is, at the version and with the
# hash of tests/browser/axe. Run, and part of nothing that is built.
axe() {
  local from=tests/browser/axe dir=target/axe
  cmp -s $from/package-lock.json $dir/recipe && [ -f $dir/node_modules/axe-core/axe.min.js ] && return 0
  command -v npm >/dev/null || return 1
  rm -rf --one-file-system $dir && mkdir -p $dir && cp $from/package.json $from/package-lock.json $dir/
  if ! (cd $dir && timeout 300 npm ci --no-audit --no-fund --ignore-scripts) >>target/setup.log 2>&1; then
    rm -rf --one-file-system $dir
    return 1
  fi
  cp $from/package-lock.json $dir/recipe
  callers $dir
  say 'laid axe-core in target/axe'
}

# Under sudo the build directory of a caller's own checkout stays the caller's, for that user's next build.
callers() {
  if as_root && [ "${SUDO_UID:-0}" != 0 ] && [ "$(stat -c %u .)" = "$SUDO_UID" ]; then
    chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$@"
  fi
}

if [ "$goal" = demo ] && ! as_root; then
  say 'the demo takes root: it makes namespaces and mounts for a real node'
  say "cure: run 'sudo make demo', or the same command as root"
  exit 1
fi
mkdir -p target
callers target
if ! [ -w target ]; then
  say "target/ cannot be written by $(id -un): it is another user's"
  say "cure: run 'sudo make setup', or give it back: sudo chown -R $(id -un) target"
  exit 1
fi
# On the directory itself: a lock file would be whoever's came first.
exec 9<target
flock 9 # two makes at once: the second finds everything done
no_leftover "$SAID_NO"

mapfile -t packages < <(missing_for build)
if [ ${#packages[@]} -gt 0 ]; then
  install_packages "${packages[@]}"
fi

nodes=yes
mapfile -t packages < <({ missing_for nodes; missing_for units; } | sort -u)
# Where the host itself runs systemd, nodes are started by its systemd-nspawn.
if [ -d /run/systemd/system ] && ! there systemd-nspawn; then
  packages+=(systemd-container)
fi
if [ ${#packages[@]} -gt 0 ]; then
  install_packages "${packages[@]}" || nodes=no
fi
node_root || nodes=no
directory=yes
directory || directory=no
# Only a test calls it: a demo does not wait for it.
[ "$goal" = demo ] || schemathesis || say 'schemathesis cannot be had (it takes python3-venv and PyPI): its test of the API is skipped'
[ "$goal" = demo ] || axe || say 'axe-core cannot be had (it takes npm and its registry): its test of the page is skipped'
page=yes
page || page=no
callers target/setup.log 2>/dev/null || true
exporter || say 'prometheus-node-exporter cannot be had: make bench leaves out the comparison with it'
# After the exporter, which lays target/tools anew.
step_ca || say 'step-ca cannot be had (it takes Go and its module): tests of it are skipped'
if ! qualification/cargo.sh --version >/dev/null 2>&1; then
  say "missing: cargo, or the toolchain that rust-toolchain.toml names, for $(id -un)"
  say 'cure: install Rust with rustup, see that cargo --version works here, then run the same command again'
  exit 1
fi
if [ $directory = no ]; then
  say 'slapd, ldap-utils, openssh-client or openssl cannot be had: tests of the directory are skipped and make demo will not run'
fi
if [ $page = no ]; then
  say 'chromium, chromium-driver or libnss3-tools cannot be had: tests of the page in a browser are skipped and make demo ONCE=1 will not run'
fi
if [ $nodes$directory != yesyes ] && [ "$goal" = demo ]; then
  say 'the demo needs the above'
  exit 1
fi
if [ "$page$goal$once" = nodemoonce ]; then
  say 'the demo that ends by itself needs the above; make demo without ONCE=1 does not'
  exit 1
fi
if [ $nodes = no ]; then
  say 'ready to build and test; without the above there are no container nodes: their tests are skipped and make demo will not run'
else
  say 'ready'
fi
