# shellcheck shell=bash
# Sourced by setup.sh: packages whose daemons are not to start. Debian asks /usr/sbin/policy-rc.d before it starts one;
# while a file of ours there says no, nothing starts, and it goes when the installation has ended, however that ended.
# What stays after a kill -9 is known by its second line and goes with the next run. Whatever else lies there is the
# administrator's, and stays.

# The second line of our file, and of no other.
DAEMONS_MARK='# lucia-nodes: make setup installs packages; left behind, the next make setup removes it'

# Removes FILE if it is ours and nobody is at it. It is locked by the run that laid it and by whatever that run started,
# so that apt, which goes on after a kill -9 of its caller, keeps it until it is done.
no_leftover() {
  local said_no=$1
  if [ -L "$said_no" ] || ! [ -f "$said_no" ] || [ "$(sed -n 2p "$said_no" 2>/dev/null)" != "$DAEMONS_MARK" ]; then return 0; fi
  if ! [ -w "$(dirname "$said_no")" ]; then
    say "$said_no is left from a make setup that was killed, and keeps new daemons from starting"
    say "cure: run 'sudo make setup'"
    return 0
  fi
  if (flock -n 8) 8<"$said_no"; then
    rm -f "$said_no"
    say "removed $said_no, which a make setup that was killed had left"
  else
    say "another make setup, or its apt, still installs packages, and keeps $said_no for that"
  fi
}

# without_daemons FILE COMMAND...: runs COMMAND while FILE says no. Gives its status.
without_daemons() {
  local said_no=$1 status=0
  shift
  if [ -e "$said_no" ] || [ -L "$said_no" ] || ! [ -w "$(dirname "$said_no")" ]; then
    "$@"
    return
  fi
  # A subshell, for traps and lock of its own. Bash runs a trap when the program it waits for has ended, not before.
  (
    # A name of this run's own: another one may be at its end.
    new=$said_no.lucia-$BASHPID
    # shellcheck disable=SC2317,SC2329  # run by the traps
    gone() {
      # Ours by its lock: another run may have been faster with a file of its own.
      if [ "$said_no" -ef /proc/self/fd/8 ]; then rm -f "$said_no"; fi
      rm -f "$new"
    }
    # shellcheck disable=SC2317,SC2329
    ended() {
      gone
      # By the signal itself, so that who called us ends with it as well.
      trap - EXIT "$1"
      kill -s "$1" "$BASHPID"
    }
    for signal in HUP INT TERM; do
      # shellcheck disable=SC2064  # the signal of this turn
      trap "ended $signal" "$signal"
    done
    trap gone EXIT
    # Whole and locked before it has its name, and open for reading alone: what is open for writing cannot be run.
    # errexit has no say in here.
    {
      printf '#!/bin/sh\n%s\nexit 101\n' "$DAEMONS_MARK" >"$new" && chmod 755 "$new" &&
        exec 8<"$new" && flock 8 && mv -n "$new" "$said_no"
    } || exit 1
    "$@"
  ) || status=$?
  return $status
}
