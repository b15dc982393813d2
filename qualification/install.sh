#!/usr/bin/env bash
# make install: lays the release binaries, units, users, directories and commented default configurations.
# Usage: qualification/install.sh BINARIES DESTDIR PREFIX. A configuration that is already there is never touched.
set -euo pipefail
cd "$(dirname "$0")/.."
built=$1 dest=$2 prefix=$3

# Units name these paths, so they do not follow PREFIX.
install -D -m 0755 "$built/lucia-node-agent" "$dest/usr/lib/lucia/agent/lucia-node-agent"
install -d "$dest$prefix/bin"
ln -sf /usr/lib/lucia/agent/lucia-node-agent "$dest$prefix/bin/lucia-node-agent" # for people: lucia-node-agent why
for program in lucia-controller lucia-enrollment-worker luciactl; do
  install -D -m 0755 "$built/$program" "$dest$prefix/bin/$program"
done
for unit in lucia-node-agent lucia-controller lucia-enrollment-worker; do
  install -d "$dest/usr/lib/systemd/system"
  sed "s|/usr/bin/lucia-|$prefix/bin/lucia-|g" "systemd/$unit.service" >"$dest/usr/lib/systemd/system/$unit.service"
  chmod 0644 "$dest/usr/lib/systemd/system/$unit.service"
done
install -D -m 0644 systemd/lucia.sysusers "$dest/usr/lib/sysusers.d/lucia.conf"
install -D -m 0644 systemd/lucia.tmpfiles "$dest/usr/lib/tmpfiles.d/lucia.conf"
for part in agent controller worker; do
  if [ -e "$dest/etc/lucia/$part.toml" ]; then
    echo "install: kept $dest/etc/lucia/$part.toml"
  else
    install -D -m 0644 "$part/$part.toml" "$dest/etc/lucia/$part.toml"
  fi
done
echo "install: done. Next: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload"
