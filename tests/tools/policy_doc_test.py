"""The policy file's two manuals, docs/policy.md and sluice.yaml(5): the example of all keys is a policy without a
doubt, every key that is read is in both, defaults may be written out, and the man page is sound."""
import os
import re
import subprocess

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
GUIDE = os.path.join(ROOT, "docs", "policy.md")
PAGE = os.path.join(ROOT, "docs", "man", "sluice.yaml.5")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def lint(path):
    return subprocess.run([SLUICE, "lint", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60)


def keys():
    """Every key that a table of the readers has."""
    found = set()
    folder = os.path.join(ROOT, "src", "policy")
    for name in os.listdir(folder):
        if name.startswith("conf") and name.endswith(".c"):
            text = read(os.path.join(folder, name))
            for table in re.findall(r"struct sl_field fields\[\] = \{(.*?)\n\t\};", text, re.S):
                found.update(re.findall(r'\{"([^"]+)",', table))
    return found


def examples():
    return re.findall(r"```yaml\n(.*?)```", read(GUIDE), re.S)


def names_in(value):
    if isinstance(value, dict):
        return set(value) | set().union(*map(names_in, value.values()))
    return set().union(set(), *map(names_in, value)) if isinstance(value, list) else set()


def test_the_keys_are_found():
    assert {"limits", "candidate", "listen", "proxy-protocol", "client-ca", "denials-size", "roles",
            "redis", "budget", "ca", "of", "penalty", "steps", "ttl"} <= keys()


@pytest.mark.parametrize("which", range(len(examples())))
def test_the_examples_are_fine(tmp_path, which):
    path = tmp_path / "all.yaml"
    path.write_text(examples()[which])
    done = lint(path)
    assert done.returncode == 0, done.stdout


def test_the_examples_have_every_key():
    # those that exclude what is there, mean the same, belong to a later version, or are former names
    assert len(examples()) == 5
    assert keys() - set().union(*(names_in(yaml.safe_load(text)) for text in examples())) == {
        "grpc", "file", "shared", "blocks", "client-ca", "unprotected", "leases", "lease",
        "denied", "body", "type",  # these name a file that must be there: docs/proxies.md
        "overrides-from",  # as this does: docs/policy.md
        "envoy", "config", "algorithm", "merge-domains"}  # a folder that must be there: docs/envoy.md


@pytest.mark.parametrize("name", sorted(name for name in os.listdir(os.path.join(ROOT, "examples"))
                                        if name.endswith(".yaml")))
def test_the_policies_to_start_from_have_no_mistake(name):
    done = lint(os.path.join(ROOT, "examples", name))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("key", sorted(keys()))
def test_every_key_is_explained(key):
    assert re.search(r"^\|.*`%s`.*\|" % key, read(GUIDE), re.M) or "\n## %s\n" % key in read(GUIDE) or \
        "\n### %s\n" % key in read(GUIDE) or "**%s**" % key in read(GUIDE)
    assert re.search(r"^\.It Cm .*\b%s\b|^\.Cm %s$" % (key, key), read(PAGE), re.M)


def test_the_quotas_of_single_keys_are_as_shown(tmp_path):
    text = re.search(r"```\n(key,limit\n.*?)```", read(GUIDE), re.S)[1]
    (tmp_path / "quotas.csv").write_text(text)
    path = tmp_path / "policy.yaml"
    path.write_text("attributes: {user: header x-user-id}\n"
                    "limits: [{name: a, key: user | ip, limit: 600/1m, overrides-from: %s/quotas.csv}]\n" % tmp_path)
    done = lint(path)
    assert done.returncode == 0, done.stdout
    for request, line in (("user=alice", 3), ("user=bob", 4), ("ip=192.0.2.7", 5), ("user=a,b", 6), ("user=c,d", 7)):
        done = subprocess.run([SLUICE, "explain", "-c", str(path), request], stdout=subprocess.PIPE, text=True,
                              timeout=60, check=True)
        assert re.search(r": line %d of \S+/quotas.csv (applies|says unlimited)" % line, done.stdout), done.stdout


def test_defaults_written_out_change_nothing(tmp_path):
    """What the guide calls a default may be written: still no mistake and no doubt."""
    path = tmp_path / "defaults.yaml"
    path.write_text("""
listen: {resp: 127.0.0.1:7379, http: {address: "127.0.0.1:7380", tls: false, proxy-protocol: false, unprotected: false}}
store: {memory: 256MiB, blocks: 50%}
trusted-proxies: [127.0.0.0/8, "::1/128"]
client-address: x-forwarded-for
ipv6-prefix: 64
client-time: false
anonymous: none
headers: draft10
observe: false
near-limit: 5%
drain: 0s
connections: {max: 0, per-address: 0, idle: 0s, request: 10s, write: 10s}
log: {format: text, denials-per-key: 10s, denials-per-second: 100, denials-size: 64MiB}
limits:
  - {name: a, key: ip, limit: 1/1s, when: {}, overrides: [], observe: false, on-error: allow, strict: false,
     stagger: false, optional: false}
""")
    done = lint(path)
    assert done.returncode == 0, done.stdout
    path.write_text("store: {redis: 127.0.0.1:6379, prefix: 'sluice:', via: auto, budget: 20ms, slices: true, "
                    "slice: 500ms, ready-after: 10s, tls: false}\nlimits: []\n")
    done = lint(path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("macros", ["-mdoc", "-man"])
def test_the_man_page_is_sound(macros):
    done = subprocess.run(["groff", macros, "-ww", "-z", PAGE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == 0 and done.stdout == "", done.stdout


def test_the_man_page_reads_well(tmp_path):
    text = subprocess.run(["groff", "-mdoc", "-Tascii", PAGE], stdout=subprocess.PIPE, text=True, check=True).stdout
    text = re.sub(r".\x08|\x1b\[[0-9;]*m", "", text)
    assert max(map(len, text.splitlines())) <= 80
    assert "NAME\n" in text and "EXAMPLES\n" in text and "SEE ALSO\n" in text
    path = tmp_path / "example.yaml"
    path.write_text(re.search(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed", read(PAGE))[1])
    done = lint(path)
    assert "error" not in done.stdout and done.returncode in (0, 1), done.stdout
