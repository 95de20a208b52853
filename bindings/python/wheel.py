#!/usr/bin/python3
"""Makes the wheel: wheel.py EXTENSION VERSION FOLDER. By the standard library, the same bytes from the same files.

It is for every Python from 3.9 on (abi3), and for hosts whose C library is as new as the symbols that are used of it.
"""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
# The LICENSE is beside this file in the sources that pip takes, and at the top of the repository.
TOP = HERE if os.path.exists(os.path.join(HERE, "LICENSE")) else os.path.join(HERE, "..", "..")
METADATA = """Metadata-Version: 2.1
Name: sluice
Version: %s
Summary: Rate limiting by sliding windows, exact where it says exact: in process, shared by processes, or at a server
License: %s
Requires-Python: >=3.9
Description-Content-Type: text/markdown
Provides-Extra: limits
Requires-Dist: limits>=4.1; extra == "limits"

%s"""
WHEEL = "Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\nTag: %s\n"
# For versions of `limits` that look for storages there; today's know those that are imported.
ENTRY_POINTS = """[limits.storage]
sluice = sluice.limits:SluiceStorage
async-sluice = sluice.limits:AsyncSluiceStorage
"""


def tag(extension):
    said = subprocess.run(["objdump", "-T", extension], check=True, capture_output=True, text=True).stdout
    newest = max((tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", said)), default=None)
    system = "manylinux_%d_%d_" % newest[:2] if newest else "musllinux_1_2_"
    return "cp39-abi3-" + system + platform.machine()


def stripped(extension):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", path, extension], check=True)
        return read(path)


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def package():
    """{path: bytes} of what of the package is Python."""
    found = {}
    for folder, _, names in os.walk(os.path.join(HERE, "sluice")):
        for name in names:
            if name.endswith((".py", ".pyi", ".typed")):
                path = os.path.join(folder, name)
                found[os.path.relpath(path, HERE)] = read(path)
    return found


def main(extension, version, folder):
    name, info = "sluice-%s" % version, "sluice-%s.dist-info/" % version
    license_name = read(TOP, "LICENSE").decode().split("\n", 1)[0].strip()
    content = {"sluice/_core.abi3.so": stripped(extension), **package()}
    where = tag(extension)
    content[info + "METADATA"] = (METADATA % (version, license_name, read(HERE, "README.md").decode())).encode()
    content[info + "WHEEL"] = (WHEEL % where).encode()
    content[info + "entry_points.txt"] = ENTRY_POINTS.encode()
    content[info + "LICENSE"] = read(TOP, "LICENSE")
    record = []
    for path, data in sorted(content.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append("%s,sha256=%s,%d" % (path, digest, len(data)))
    content[info + "RECORD"] = "\n".join([*record, info + "RECORD,,", ""]).encode()
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        if re.fullmatch(r"sluice-.*\.whl", old):
            os.remove(os.path.join(folder, old))
    target = os.path.join(folder, "%s-%s.whl" % (name, where))
    with zipfile.ZipFile(target + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in sorted(content.items()):
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    os.replace(target + ".part", target)
    return target


if __name__ == "__main__":
    print("  WHL  %s" % main(*sys.argv[1:]))
