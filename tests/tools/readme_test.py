"""The README and the tour, from the first command to the last, as somebody types them who has nothing yet: in a root
where nothing of ours is installed, with a network of its own, so that the ports are the printed ones.

The root is the machine's with an empty /usr/local, /var/log and /var/lib, a copy of /etc (for the loader's cache), and
the tree as it is under an overlay, built or not. What a block answers is compared where they print an answer."""
import gzip
import lzma
import os
import re
import subprocess

import pytest

import shown

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAFFIC = os.path.join(os.path.dirname(ROOT), "shared", "data", "apache.log.xz")
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]

SET_UP = r"""
mount --make-rprivate / && mount -t tmpfs none {work}/memory && mkdir {work}/memory/upper {work}/memory/work
mount -t overlay none -o lowerdir={root},upperdir={work}/memory/upper,workdir={work}/memory/work {work}/sluice
mount -t tmpfs none /usr/local && mkdir /usr/local/bin /usr/local/lib
cp -a /etc {work}/memory/etc && mount --bind {work}/memory/etc /etc
mount -t tmpfs none /var/log && mkdir /var/log/nginx && cp {work}/access.log.1.gz /var/log/nginx/
mount --bind {work}/lib /var/lib && mkdir /var/lib/sluice
ip link set lo up
ldconfig
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME={work}
unset PKG_CONFIG_PATH LD_LIBRARY_PATH MAKEFLAGS
wait_for() {{ for _ in $(seq 600); do (: <"/dev/tcp/127.0.0.1/$1") 2>{work}/null && return; sleep 0.1; done; exit 9; }}
cd {work}/sluice
"""


def documents():
    """One after the other, as they are read."""
    text = ""
    for path in ("README.md", "docs/tour.md"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text += file.read()
    return text


def steps():
    """[(shell text, what it must answer or None)], in order. A block of answers stands behind the block that asks."""
    found = []
    all_blocks = shown.blocks(documents())
    for i, (language, text) in enumerate(all_blocks):
        if language == "console":
            found += shown.commands("```console\n%s```\n" % text)
        elif language == "sh":
            follows = all_blocks[i + 1] if i + 1 < len(all_blocks) else ("none", "")
            found.append((text, follows[1].splitlines() if follows[0] == "" else None))
        elif language == "yaml":
            name = re.match(r"# (\S+\.yaml)", text)
            found.append(("cat >%s <<'END'\n%sEND" % (name[1] if name else "shown.yaml", text), None))
            found.append(("sluice lint %s" % name[1] if name else ":", None))
            if text.startswith("store: {file:"):  # "in the policy": a server has it
                found.append(("sluice serve -c shown.yaml --resp 127.0.0.1:7479 --http 127.0.0.1:7480 &\nwait_for 7479",
                              None))
    found.insert(1, (re.search(r"from source \| `(.*?)`", documents())[1], None))  # of the table, and used below it
    return found


def typed(text):
    """As it is typed; what goes on in the foreground does so in another terminal."""
    text = text.replace("git clone THIS-REPOSITORY sluice && cd sluice\n", "").replace("sudo ", "")
    text = re.sub(r"^(redis-server (?:--port (\d+) )?.*)$",
                  lambda found: "%s\nwait_for %s" % (found[1], found[2] or 6379), text, flags=re.M)
    text = re.sub(r"^make run$", "make run >../server 2>&1 &\nwait_for 7380", text, flags=re.M)
    return shown.at_a_terminal(text)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """[(step, exit status, output, seconds since the step before began)], of those that were reached."""
    if subprocess.run([*NAMESPACES, "mount", "--make-rprivate", "/"], capture_output=True).returncode != 0:
        pytest.skip("namespaces of mounts and networks are not to be had here")
    if not os.path.exists(TRAFFIC):
        pytest.skip("the recorded traffic that the README shows is not beside the tree")
    work = tmp_path_factory.mktemp("root")
    for name in ("memory", "sluice", "lib"):
        (work / name).mkdir()
    with lzma.open(TRAFFIC) as file, gzip.open(work / "access.log.1.gz", "wb") as copy:
        copy.write(file.read())
    lines = ["set -e", SET_UP.format(work=work, root=ROOT), "set +e"]
    for number, (text, _) in enumerate(steps()):
        lines.append("touch %s/begun.%d\n{\n%s\n} >%s/out.%d 2>&1\necho $? >%s/status.%d" %
                     (work, number, typed(text), work, number, work, number))
    (work / "script").write_text("\n".join(lines) + "\nexit 0\n")
    done = subprocess.run([*NAMESPACES, "bash", str(work / "script")], capture_output=True, text=True, timeout=600)
    found = []
    for number, step in enumerate(steps()):
        if os.path.exists(work / ("status.%d" % number)):
            passed_s = os.path.getmtime(work / ("status.%d" % number)) - \
                os.path.getmtime(work / ("begun.%d" % max(0, number - 1)))
            found.append((step, int((work / ("status.%d" % number)).read_text()),
                          (work / ("out.%d" % number)).read_text(), passed_s))
    assert len(found) == len(steps()), "%s\n%s\n%s" % (done.stdout, done.stderr, found[-1:])
    return found


def test_everything_that_is_typed_works(answers):
    assert len(answers) > 15
    for (text, _), status, output, _ in answers:
        assert status == 0, "%s\n-> %d\n%s" % (text, status, output)


def test_everything_is_answered_as_printed(answers):
    compared = 0
    for (text, expected), _, output, passed_s in answers:
        if expected is None:
            continue
        told = [line.rstrip() for line in output.replace("\r", "").rstrip("\n").split("\n")]
        if expected:
            compared += 1
            assert shown.lines_agree(told, expected, passed_s), \
                "%s\n-> %s\nprinted: %s" % (text, output, "\n".join(expected))
    assert compared > 8
