#!/usr/bin/python3
"""Makes the sources as pip takes them: sdist.py VERSION OBJECTS FOLDER OBJECT.. writes FOLDER/sluice-VERSION.tar.gz,
the same bytes from the same files.

  OBJECTS   the folder of objects
  OBJECT    what the extension is linked of; what each was compiled of is told by the compiler beside it (*.d)
"""
import gzip
import io
import os
import re
import sys
import tarfile

from wheel import HERE, package, read

PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
METADATA = """Metadata-Version: 2.1
Name: sluice
Version: %s
Requires-Python: >=3.9
"""


def sources(objects, names):
    """{path: bytes} of all files of ours that these objects were compiled of, and the list of those to compile."""
    compiled, needed = [], set()
    for name in names:
        compiled.append(os.path.relpath(name, objects)[:-2] + ".c")
        with open(name[:-2] + ".d", encoding="utf-8") as f:
            words = f.read().replace("\\\n", " ").split(":", 1)[1].split("\n", 1)[0].split()
        needed.update(os.path.normpath(word) for word in words if not os.path.isabs(word))
    found = {"source/" + path: read(path) for path in needed}
    found["source/files.txt"] = ("\n".join(sorted(set(compiled))) + "\n").encode()
    return found


def main(version, objects, folder, *names):
    root = os.path.join(HERE, "..", "..")
    files = {**sources(objects, names), **package()}
    for name in ("README.md", "backend.py", "wheel.py"):
        files[name] = read(os.path.join(HERE, name))
    files["source/bindings/python/exports.map"] = read(os.path.join(HERE, "exports.map"))
    files["LICENSE"] = read(os.path.join(root, "LICENSE"))
    files["pyproject.toml"], files["version"] = PROJECT.encode(), version.encode()
    files["PKG-INFO"] = (METADATA % version).encode()
    for old in os.listdir(folder):
        if re.fullmatch(r"sluice-.*\.tar\.gz", old):
            os.remove(os.path.join(folder, old))
    top = "sluice-%s" % version
    target = os.path.join(folder, top + ".tar.gz")
    with open(target + ".part", "wb") as out, gzip.GzipFile("", "wb", 9, out, 0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    os.replace(target + ".part", target)
    print("  SRC  %s" % target)


if __name__ == "__main__":
    main(*sys.argv[1:])
