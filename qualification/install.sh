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
# Manual and completions come from luciactl itself; one that was built for another machine cannot be asked here.
ctl=$dest$prefix/bin/luciactl share=$dest$prefix/share
man=$share/man/man1 man8=$share/man/man8 bash=$share/bash-completion/completions zsh=$share/zsh/vendor-completions fish=$share/fish/vendor_completions.d
install -d "$man" "$man8" "$bash" "$zsh" "$fish"
if ! "$ctl" man --into "$man" || ! "$ctl" completions bash >"$bash/luciactl" || ! "$ctl" completions zsh >"$zsh/_luciactl" ||
  ! "$ctl" completions fish >"$fish/luciactl.fish"; then
  echo "install: luciactl does not run here: no manual and no completions; on its machine: luciactl man --into /usr/share/man/man1"
fi
for program in /usr/lib/lucia/agent/lucia-node-agent "$prefix/bin/lucia-controller" "$prefix/bin/lucia-enrollment-worker"; do
  "$dest$program" man --into "$man8" || echo "install: ${program##*/} does not run here: no manual; on its machine: ${program##*/} man --into /usr/share/man/man8"
done
find "$man" "$man8" "$bash" "$zsh" "$fish" -maxdepth 1 -name '*luci*' -exec chmod 0644 {} +
for unit in lucia-node-agent lucia-controller lucia-enrollment-worker; do
  install -d "$dest/usr/lib/systemd/system"
  sed "s|/usr/bin/lucia-|$prefix/bin/lucia-|g" "systemd/$unit.service" >"$dest/usr/lib/systemd/system/$unit.service"
  chmod 0644 "$dest/usr/lib/systemd/system/$unit.service"
done
# For a worker beside a controller in a user's own container; nothing starts it but that user.
install -d "$dest/usr/lib/systemd/user"
sed "s|/usr/bin/lucia-|$prefix/bin/lucia-|g" systemd/user/lucia-enrollment-worker.service >"$dest/usr/lib/systemd/user/lucia-enrollment-worker.service"
chmod 0644 "$dest/usr/lib/systemd/user/lucia-enrollment-worker.service"
install -D -m 0644 systemd/lucia.sysusers "$dest/usr/lib/sysusers.d/lucia.conf"
install -D -m 0644 systemd/lucia.tmpfiles "$dest/usr/lib/tmpfiles.d/lucia.conf"
for file in agent/agent controller/controller worker/worker; do
  name=${file#*/}.toml
  if [ -e "$dest/etc/lucia/$name" ]; then
    echo "install: kept $dest/etc/lucia/$name"
  else
    install -D -m 0644 "$file.toml" "$dest/etc/lucia/$name"
  fi
done
policy=$dest/etc/lucia/agent-policy.toml
if [ -e "$policy" ]; then
  echo "install: kept $policy"
elif "$dest/usr/lib/lucia/agent/lucia-node-agent" policy default >"$policy.new"; then
  chmod 0644 "$policy.new"
  mv "$policy.new" "$policy"
else
  rm -f "$policy.new"
  echo "install: lucia-node-agent does not run here: no policy; on its machine: lucia-node-agent policy default >/etc/lucia/agent-policy.toml"
fi
echo "install: done. Next: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload"
