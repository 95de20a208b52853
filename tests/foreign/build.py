#!/usr/bin/python3
"""Builds programs in Go that are not ours, and prints their paths. Which, and which versions, is pinned by go.mod and
go.sum beside this; they are built into build/foreign once for each state of this folder. Where there is no Go, or none
new enough, or the modules can't be had, it says so in a line on standard error, and ends with status 1.

    tests/foreign/build.py ratelimit|verdict|grpcurl|h2spec ..."""
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = {"ratelimit": "github.com/envoyproxy/ratelimit/src/service_cmd", "verdict": "./verdict",
            "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl",
            "h2spec": "github.com/summerwind/h2spec/cmd/h2spec"}
BUILD_SECONDS_MAX = 800


def state():
    digest = hashlib.sha256()
    for path in sorted(glob.glob(HERE + "/go.*") + glob.glob(HERE + "/*/*.go")):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:12]


def build(name):
    folder = os.path.join(ROOT, "build", "foreign", state())
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test jobs, one build
        if os.path.exists(path):
            return path
        if shutil.which("go") is None:
            sys.exit(f"{name} is not built: no Go")
        environment = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        made = subprocess.run(["go", "build", "-mod=readonly", "-trimpath", "-o", path + ".new", PROGRAMS[name]],
                              cwd=HERE, env=environment, capture_output=True, text=True, check=False,
                              timeout=BUILD_SECONDS_MAX)
        if made.returncode != 0:
            sys.exit(f"{name} can't be built: " + made.stderr.strip()[-200:].replace("\n", " "))
        os.rename(path + ".new", path)
        return path


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[1:]) <= set(PROGRAMS):
        sys.exit(__doc__.rsplit("\n", 1)[1].strip())
    for program in sys.argv[1:]:
        print(build(program))
