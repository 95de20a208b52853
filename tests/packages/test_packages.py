"""A release, tried as whoever gets it would: `make release` twice, the packages in a bare Debian, the image by two
programs that read images and from an empty root. Minutes, and packages from Debian: part of soaks.

  /usr/bin/python3 -m pytest tests/packages        after tools/deps packages"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "foreign"))

from debian import mirrors  # noqa: E402

SUITE = "bookworm"
SERVED = "(exec 3<>/dev/tcp/127.0.0.1/7379) 2>/dev/null"


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, "%s\n%s\n%s" % (words, done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout


def made(name):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    build = ROOT / "build" / name
    run("make", "--no-print-directory", "O=%s" % build, "release", cwd=ROOT, env=environment)
    return build / "release"


@pytest.fixture(scope="session")
def release():
    if not (ROOT / ".git").exists():
        pytest.skip("a release is made from what git tracks, and this tree has no .git")
    return made("try-release")


def mirror():
    if SUITE not in mirrors():
        pytest.skip("this machine has no packages of Debian %s to make a bare one of" % SUITE)
    return mirrors()[SUITE]


@pytest.fixture(scope="session")
def debian(tmp_path_factory):
    """The folder of a bare Debian, to be copied."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("debootstrap wants to be there, and root")
    path = tmp_path_factory.mktemp("bare") / "debian"
    done = subprocess.run(["debootstrap", "--variant=minbase", SUITE, path, mirror()], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        pytest.skip("no bare Debian could be made: " + done.stdout.splitlines()[-1])
    (path / "etc/apt/sources.list").unlink(missing_ok=True)  # debootstrap's own, which ours would double
    for name in pathlib.Path("/etc/apt").rglob("*"):  # sources, keys and a proxy, as they are here
        if name.is_file():
            copy = path / name.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, copy)
    (path / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (path / "usr/sbin/policy-rc.d").chmod(0o755)
    return path


@pytest.fixture
def root(debian, tmp_path):
    copy = tmp_path / "root"
    run("cp", "-a", debian, copy)
    return copy


def inside(root, script):
    """In a root of its own, with a network of its own."""
    return run("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "chroot", root, "bash",
               "-ec", "ip link set lo up 2>/dev/null || true\n" + script)


def installs(root, *packages):
    (root / "packages").mkdir(exist_ok=True)
    for package in packages:
        shutil.copy(package, root / "packages")
    run("chroot", root, "bash", "-c", "DEBIAN_FRONTEND=noninteractive apt-get -q update && cd /packages && "
        "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "
        + " ".join("./" + package.name for package in packages) + " iproute2")


def package(release, name):
    return next(path for path in release.glob("%s_*.deb" % name))


def test_lintian_has_no_errors(release):
    done = subprocess.run(["lintian", "--fail-on", "error", *map(str, release.glob("*.deb"))], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout


COUNTS = """
sluice serve -c /etc/sluice/sluice.yaml 2>/log & server=$!
until sluice ready >/dev/null 2>&1; do kill -0 $server || { cat /log; exit 1; }; sleep 0.1; done
sluice check user:1 'sliding-log 5/1h' --cost 3 || true
kill $server; wait $server
"""


def test_from_one_line_to_the_first_answer(release, root):
    begin = time.monotonic()
    installs(root, package(release, "sluice"))
    told = inside(root, "mkdir -p /var/lib/sluice\n" + COUNTS)
    assert "allowed" in told
    print("kept: package installed, first limited answer: %.0f s" % (time.monotonic() - begin))


def test_an_upgrade_keeps_counters_and_what_was_edited(release, root, tmp_path):
    """The version before is the same package with a lower number: there is no other yet."""
    new = package(release, "sluice")
    old = tmp_path / "old"
    run("dpkg-deb", "-R", new, old)
    control = old / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 0.0.9-1", control.read_text()))
    run("dpkg-deb", "-b", old, tmp_path / "sluice_0.0.9-1_amd64.deb")
    installs(root, tmp_path / "sluice_0.0.9-1_amd64.deb")
    inside(root, "mkdir -p /var/lib/sluice; echo '# ours' >>/etc/sluice/sluice.yaml\n" + COUNTS)
    installs(root, new)
    told = inside(root, "dpkg-query -W -f '${Version}\\n' sluice; grep -c '# ours' /etc/sluice/sluice.yaml\n" + COUNTS)
    assert "0.0.9" not in told and told.splitlines()[1] == "1" and "denied" in told
    run("chroot", root, "dpkg", "--purge", "sluice")
    assert not (root / "etc/sluice/sluice.yaml").exists() and (root / "var/lib/sluice/counters").exists()


def test_what_systemd_listens_for_outlives_an_upgrade_and_not_a_removal(release, tmp_path):
    run("dpkg-deb", "-e", package(release, "sluice"), tmp_path)
    scripts = {path.name: path.read_text() for path in tmp_path.glob("p*")}
    assert {"postinst", "prerm"} <= set(scripts) and "stop" not in scripts.get("preinst", "")
    stopped = re.findall(r"deb-systemd-invoke stop (.*?) >", scripts["prerm"])
    assert stopped[0] == "sluice.socket sluice.service", scripts["prerm"]
    invoked = re.findall(r"deb-systemd-invoke (\S+) (\S+)", scripts["postinst"])
    assert invoked[0] == ("restart", "sluice.service") and not [one for one in invoked if "socket" in one[1]], invoked


def test_nginx_loads_its_module(release, root):
    """Installed, it is enabled; nginx reads the directives, and counts."""
    installs(root, package(release, "libnginx-mod-http-sluice"))
    told = inside(root, """
        echo 'sluice_store shared:t memory=2m;
        server { listen 127.0.0.1:8123; location / { sluice_limit 1/1h key=$remote_addr; empty_gif; } }' \
            >/etc/nginx/conf.d/t.conf
        mount -t tmpfs none /dev/shm  # for all to write, as workers run as www-data
        nginx -t 2>&1; nginx; ls -l /etc/nginx/modules-enabled
        for i in 1 2; do exec 3<>/dev/tcp/127.0.0.1/8123; printf 'GET / HTTP/1.0\r\n\r\n' >&3; head -n 1 <&3; done
        nginx -s stop""")
    assert "mod-http-sluice.conf" in told and re.findall(r"HTTP/1\.1 (\d+)", told) == ["200", "429"], told


def test_the_packages_own_tests(release, root):
    """autopkgtest, in the bare Debian."""
    packages = sorted(path for path in release.glob("*.deb") if "dbgsym" not in path.name)
    done = subprocess.run(["autopkgtest", *map(str, packages), str(ROOT), "--", "chroot", str(root)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert len(re.findall(r"(?m)^\S+ +PASS", done.stdout)) == 3, done.stdout[-4000:]


def test_the_static_program_needs_nothing(release, tmp_path):
    begin = time.monotonic()
    program = next(release.glob("sluice-*-linux-*"))
    empty = tmp_path / "empty"
    (empty / "etc").mkdir(parents=True)
    shutil.copy(program, empty / "sluice")
    assert run("chroot", empty, "/sluice", "version").startswith("sluice ")
    assert "not a dynamic executable" in subprocess.run(["ldd", program], capture_output=True, text=True,
                                                        check=False).stderr
    # names are found without the machine's libraries
    (empty / "etc/hosts").write_text("127.0.0.1 somewhere.example\n")
    done = subprocess.run(["chroot", empty, "/sluice", "check", "k", "5/1h", "--server", "somewhere.example:1"],
                          capture_output=True, text=True, check=False)
    assert "connecting: Connection refused" in done.stderr, done.stderr
    print("kept: static program, first word: %.2f s" % (time.monotonic() - begin))


def test_the_image(release, tmp_path):
    """Read by skopeo and by umoci, and run from what umoci unpacks: nothing but the image is in that root."""
    begin = time.monotonic()
    image, version = next(release.glob("*-image.tar")), re.search(r"sluice-(.*)\.spdx", str(next(
        release.glob("*.spdx.json"))))[1]
    (tmp_path / "layout").mkdir()
    run("tar", "-xf", image, "-C", tmp_path / "layout")
    told = json.loads(run("skopeo", "inspect", "oci-archive:%s:%s" % (image, version)))
    assert told["Os"] == "linux" and told["Labels"]["org.opencontainers.image.version"] == version
    run("umoci", "unpack", "--image", "%s:%s" % (tmp_path / "layout", version), tmp_path / "bundle")
    config = json.loads((tmp_path / "bundle/config.json").read_text())
    assert config["process"]["user"]["uid"] == 65532
    assert config["process"]["args"] == ["/usr/bin/sluice", "serve", "-c", "/etc/sluice/sluice.yaml"]
    root = tmp_path / "bundle/rootfs"
    (root / "work").mkdir()
    script = """ip link set lo up
chroot --userspec=65532:65532 %s /usr/bin/sluice serve -c /etc/sluice/sluice.yaml 2>%s/log & server=$!
until chroot %s /usr/bin/sluice ready >/dev/null 2>&1; do kill -0 $server || { cat %s/log; exit 1; }; sleep 0.1; done
chroot %s /usr/bin/sluice check user:1 '5/month at Europe/Berlin'
kill $server; wait $server""" % (root, tmp_path, root, tmp_path, root)
    assert "allowed" in run("unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-ec", script)
    print("kept: image unpacked, first limited answer: %.1f s" % (time.monotonic() - begin))


def test_the_image_has_its_name_once_it_is_loaded(release, tmp_path):
    """sluice:VERSION, as the documents run it: by podman, and in what Docker without containerd reads."""
    image = next(release.glob("*-image.tar"))
    name = "sluice:" + re.search(r"sluice-(.*)-image", image.name)[1]
    run("skopeo", "inspect", "docker-archive:%s:%s" % (image, name))
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed: tools/deps packages")
    conf = tmp_path / "storage.conf"
    conf.write_text('[storage]\ndriver = "vfs"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' % (tmp_path, tmp_path))
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(conf)}
    run("podman", "load", "-i", image, env=environment)
    assert re.search(r"/%s$" % name, run("podman", "images", "--format", "{{.Repository}}:{{.Tag}}", name,
                                         env=environment), re.M)


@pytest.fixture(scope="session")
def others(tmp_path_factory):
    """Programs from PyPI, in the versions of requirements.txt: they know schemas that we don't."""
    folder = tmp_path_factory.mktemp("others")
    run("python3", "-m", "venv", folder)
    done = subprocess.run([folder / "bin/pip", "install", "-q", "-r", ROOT / "tests/packages/requirements.txt"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("pip can't install kubernetes-validate and spdx-tools: " + done.stderr.strip().splitlines()[-1])
    return folder / "bin"


def test_the_list_of_what_is_in_it_is_spdx(release, others):
    run(others / "pyspdxtools", "--infile", next(release.glob("*.spdx.json")))


def test_kubernetes_takes_the_manifests(others, tmp_path):
    """By its own schemas, strictly. What is of other projects (Envoy Gateway, Istio, Contour) these don't know."""
    taken = 0
    for path in sorted((ROOT / "examples/kubernetes").glob("*.yaml")):
        done = subprocess.run([others / "kubernetes-validate", "--strict", "-k", "1.30", path], capture_output=True,
                              text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0 and "ERROR" not in said, "%s\n%s" % (path.name, said)
        taken += len(re.findall(r"passed for resource", said))
    assert taken >= 9
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((ROOT / "examples/kubernetes/fleet.yaml").read_text().replace("replicas: 3", "replicas: three"))
    done = subprocess.run([others / "kubernetes-validate", "--strict", "-k", "1.30", wrong], capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0, "it looks"


def test_two_releases_are_the_same(release):
    other = made("try-release-again")
    names = {path.name for path in release.iterdir()}
    assert names == {path.name for path in other.iterdir()}
    differ = [name for name in sorted(names) if (release / name).read_bytes() != (other / name).read_bytes()]
    assert not differ
    print("kept: %d files of two releases, none differs" % len(names))
