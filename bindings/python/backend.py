"""What pip runs to build the package of its sources (PEP 517): it needs a C compiler, binutils, libyaml and Python's
headers, and nothing of a registry. CC= and CFLAGS= are heard."""
import os
import shlex
import subprocess
import sysconfig
import tempfile

import wheel

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-pthread", "-D_GNU_SOURCE",
         "-ffunction-sections", "-w"]


def build(extension):
    """Compiles all sources by one call of the compiler, some 20 s; raises what pip shows."""
    source = os.path.join(HERE, "source")
    with open(os.path.join(source, "files.txt"), encoding="ascii") as f:
        files = f.read().split()
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise SystemExit(f"sluice: Python's headers are not in {include}: see python3-dev")
    command = [*shlex.split(os.environ.get("CC") or "cc"), *FLAGS, *shlex.split(os.environ.get("CFLAGS", "")),
               "-shared", "-Iinclude", "-Isrc", "-I.", "-isystem", include, *files, "-o", extension,
               "-Wl,--gc-sections", "-Wl,--version-script=bindings/python/exports.map", "-lyaml"]
    try:
        done = subprocess.run(command, cwd=source, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise SystemExit(f"sluice: there is no C compiler: {error}") from error
    if done.returncode != 0:
        raise SystemExit(f"sluice: it could not be built; it needs libyaml (libyaml-dev, yaml-dev)\n{done.stderr}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    del config_settings, metadata_directory
    with open(os.path.join(HERE, "version"), encoding="ascii") as f:
        version = f.read().strip()
    with tempfile.TemporaryDirectory() as folder:
        extension = os.path.join(folder, "_core.abi3.so")
        build(extension)
        return os.path.basename(wheel.main(extension, version, wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("sluice: `make bindings` in its repository makes the sources")
