"""What packages say of the program, held against the program: quick, so on every change. Whether they install and run
is asked by tests/packages, in soaks."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PACKAGING = ROOT / "packaging"
ENVIRONMENT = {**os.environ, "SOURCE_DATE_EPOCH": "1764000000"}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def version():
    return re.search(r'SLUICE_VERSION "(.*)"', read("include/sluice.h"))[1]


def test_the_package_has_the_programs_version():
    assert re.match(r"sluice \((\S+)-\d+\)", read("debian/changelog"))[1] == version()


def test_the_symbols_file_lists_what_the_library_exports():
    told = subprocess.run(["nm", "-D", "--defined-only", BUILD / "libsluice.so"], capture_output=True, text=True,
                          check=True).stdout
    exported = {line.split()[2] for line in told.splitlines() if line.split()[1] == "T"}
    listed = set(re.findall(r"^ (\w+)@Base", read("debian/libsluice0.symbols"), re.M))
    assert exported == listed, "dpkg-gensymbols would say so when the package is built"


def test_every_installed_file_is_in_a_package(tmp_path):
    """debian/*.install are patterns; `make install` says what there is to sort."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", "--no-print-directory", "install", "DESTDIR=%s" % tmp_path, "PREFIX=/usr",
                    "LIBDIR=lib/x86_64-linux-gnu"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    patterns = []
    for path in (ROOT / "debian").glob("*.install"):
        patterns += path.read_text().split()
    # debian/rules moves these to where Debian 12 looks
    patterns = [re.sub("^lib/systemd", "usr/lib/systemd", pattern) for pattern in patterns]
    found = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()]
    assert len(found) > 50
    for name in found:
        assert any(pathlib.PurePosixPath(name).match(pattern) or
                   any(parent.match(pattern) for parent in pathlib.PurePosixPath(name).parents)
                   for pattern in patterns), name + " is in no package"


def test_the_packages_policy_loads(tmp_path):
    done = subprocess.run([BUILD / "sluice", "lint", ROOT / "debian/sluice.yaml"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0 and "warning" not in done.stdout


def image(tmp_path, name):
    path = tmp_path / name
    subprocess.run([PACKAGING / "image", BUILD / "sluice", version(), path], env=ENVIRONMENT, check=True,
                   stdout=subprocess.DEVNULL)
    return path


def test_an_image_is_whole_and_the_same_twice(tmp_path):
    one, other = image(tmp_path, "one.tar"), image(tmp_path, "other.tar")
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == name.split("/")[-1]
    manifest = json.loads(files["blobs/sha256/" + json.loads(files["index.json"])["manifests"][0]["digest"][7:]])
    config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])
    layer = tmp_path / "layer.tar.gz"
    layer.write_bytes(files["blobs/sha256/" + manifest["layers"][0]["digest"][7:]])
    with tarfile.open(layer) as tar:
        inside = {member.name: member for member in tar}
    assert config["config"]["User"] == "65532:65532"
    assert inside["usr/bin/sluice"].mode == 0o755 and inside["var/lib/sluice"].uid == 65532
    assert {"usr/share/zoneinfo/Europe/Berlin", "etc/ssl/certs/ca-certificates.crt",
            "etc/sluice/sluice.yaml"} <= set(inside)
    assert not any(member.uid == 0 and member.mode & 0o022 for name, member in inside.items() if name != "tmp")


def test_the_bill_of_materials_names_every_library(tmp_path):
    path = tmp_path / "sluice.spdx.json"
    subprocess.run([PACKAGING / "sbom", version(), ROOT / "hosts/server/page/package-lock.json", path], check=True,
                   env=ENVIRONMENT)
    document = json.loads(path.read_text())
    named = {package["name"]: package["versionInfo"] for package in document["packages"]}
    libraries = {"yaml": "libyaml", "uv": "libuv", "nghttp2": "nghttp2", "jansson": "jansson", "ssl": "openssl",
                 "crypto": "openssl", "z": "zlib", "lzma": "liblzma"}
    linked = re.findall(r"-l(\w+)", " ".join(re.findall(r"^(?:LIB|APP)_LIBS.*", read("Makefile"), re.M)))
    assert len(linked) >= 8
    for word in linked:
        assert libraries[word] in named, word
    assert "NOASSERTION" not in named.values()
    assert len({package["SPDXID"] for package in document["packages"]}) == len(document["packages"])


def test_a_source_is_the_same_twice(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("a source is made from what git tracks, and this tree has no .git")
    for name in ("one", "other"):
        subprocess.run([PACKAGING / "source", version(), BUILD / "page", tmp_path / name], check=True, env=ENVIRONMENT,
                       stderr=subprocess.DEVNULL)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with tarfile.open(tmp_path / "one") as tar:
        names = tar.getnames()
    top = "sluice-%s/" % version()
    assert top + "Makefile" in names and top + "debian/control" in names and all(n.startswith(top) for n in names)


@pytest.fixture
def keys(tmp_path):
    """An environment with a folder of keys that is thrown away, and its agent with it."""
    home = tmp_path / "keys"
    home.mkdir(mode=0o700)
    environment = {**os.environ, "GNUPGHOME": str(home)}
    yield environment
    subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False)


def test_checksums_and_a_signature(tmp_path, keys):
    """With a key that is made for this and thrown away."""
    release = tmp_path / "release"
    release.mkdir()
    (release / "a.tar.gz").write_text("a")

    def run(*words, fine=True):
        done = subprocess.run(words, env=keys, cwd=release, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == fine, done.stderr
        return done

    run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "releaser@example.invalid", "ed25519", "sign")
    run(PACKAGING / "sign", str(release), "releaser@example.invalid")
    run("gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS")
    run("sha256sum", "--check", "SHA256SUMS")
    (release / "a.tar.gz").write_text("b")
    run("sha256sum", "--check", "SHA256SUMS", fine=False)
    assert "is not signed" in run(PACKAGING / "sign", str(release)).stderr and not (release / "SHA256SUMS.asc").exists()
