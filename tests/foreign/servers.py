#!/usr/bin/python3
"""Brings a newer Redis and a newer Valkey than Debian 12 has, for the tests of module and script, and prints a folder
for each, with `redis-server` and `redis-cli` in it. They are Debian 13's packages, unpacked into build/foreign beside
the C library that they need, and run by that library's loader: nothing is installed. Where they can't be had, it says
so in a line on standard error, and ends with status 1.

    tests/foreign/servers.py redis|valkey ..."""
import fcntl
import glob
import os
import subprocess
import sys

from debian import mirrors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUITE = "trixie"
PLACE = os.path.join(ROOT, "build", "foreign", "servers-" + SUITE)
PACKAGES = {"redis": ["redis-server", "redis-tools"], "valkey": ["valkey-server", "valkey-tools"]}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECONDS_MAX = 300


def give_up(why):
    sys.exit(f"the servers of Debian's {SUITE} can't be had: {why}")


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS_MAX, cwd=PLACE,
                          env={**os.environ, "APT_CONFIG": os.path.join(PLACE, "apt.conf")})
    if done.returncode != 0:
        give_up((done.stderr.strip() or argv[0])[-200:].replace("\n", " "))
    return done.stdout


def unpack():
    """All packages that both need: apt is told of a system that has none."""
    places = mirrors()
    if not places:
        give_up("apt knows no place of Debian's")
    for folder in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(PLACE, folder), exist_ok=True)
    settings = {"Dir::State::lists": "lists", "Dir::State::status": "status", "Dir::Cache": "cache",
                "Dir::Etc::sourcelist": "sources", "Dir::Etc::sourceparts": "none",
                "Dir::Etc::preferencesparts": "none", "Dir::Etc::preferences": "none"}
    with open(os.path.join(PLACE, "apt.conf"), "w", encoding="utf-8") as file:
        file.writelines(f'{name} "{os.path.join(PLACE, what)}";\n' for name, what in settings.items())
        file.write('APT::Sandbox::User "root";\nAcquire::Languages "none";\n')
    with open(os.path.join(PLACE, "sources"), "w", encoding="utf-8") as file:
        file.write(f"deb [signed-by={KEYRING}] {next(iter(places.values()))} {SUITE} main\n")
    with open(os.path.join(PLACE, "status"), "w", encoding="utf-8"):
        pass
    run("apt-get", "-q", "update")
    run("apt-get", "-q", "-y", "--no-install-recommends", "--download-only", "install",
        *(package for packages in PACKAGES.values() for package in packages))
    for path in sorted(glob.glob(os.path.join(PLACE, "cache/archives/*.deb"))):
        run("dpkg-deb", "-x", path, os.path.join(PLACE, "root"))


def starters():
    """A process keeps its id and is known by the name that it was called by."""
    root = os.path.join(PLACE, "root", "usr")
    for name in PACKAGES:
        os.makedirs(os.path.join(PLACE, name), exist_ok=True)
        for what in ("server", "cli"):
            path = os.path.join(PLACE, name, "redis-" + what)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {root}/lib64/ld-linux-x86-64.so.2 --library-path "
                           f"{root}/lib/x86_64-linux-gnu --argv0 redis-{what} {root}/bin/{name}-{what} \"$@\"\n")
            os.chmod(path, 0o755)


def main(names):
    os.makedirs(PLACE, exist_ok=True)
    done = os.path.join(PLACE, "done")
    with open(os.path.join(PLACE, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            unpack()
            starters()
            with open(done, "w", encoding="utf-8"):
                pass
    for name in names:
        print(os.path.join(PLACE, name))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[1:]) <= set(PACKAGES):
        sys.exit(__doc__.rsplit("\n", 1)[1].strip())
    main(sys.argv[1:])
