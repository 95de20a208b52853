"""The guides, docs/guides/*.md, from the first command to the last, as somebody types them who has nothing yet: each in
an empty folder, in namespaces of its own, so that the ports are the printed ones and nothing of ours is installed.

A yaml block whose first line is a comment with a file's name is that file. Every command of a console block is run by
one shell, in order, and what it prints is compared with what stands below it."""
import glob
import os
import re
import subprocess

import pytest

import shown

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLUICE = os.path.abspath(os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice")))
GUIDES = sorted(os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "docs", "guides", "*.md")))
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
READY = "for _ in $(seq 600); do sluice ready >%s 2>&1 && break; sleep 0.1; done"

SET_UP = r"""
mount --make-rprivate /
for folder in /usr/local /var/lib /var/log; do mount -t tmpfs none $folder; done
mkdir /usr/local/bin && cp {sluice} /usr/local/bin/sluice
ip link set lo up
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME={work}
unset LD_LIBRARY_PATH
cd {work}/empty
"""


def text_of(name):
    with open(os.path.join(ROOT, "docs", "guides", name), encoding="utf-8") as file:
        return file.read()


def steps(name):
    """[(shell text, what it must print; None: whatever it prints)], in order."""
    found = []
    for language, text in shown.blocks(text_of(name)):
        file = re.match(r"# ([\w.-]+\.(?:yaml|py))\n", text)
        if file:
            found.append(("cat >%s <<'END_OF_FILE'\n%sEND_OF_FILE" % (file[1], text), None))
        elif language == "console":
            found += shown.commands("```console\n%s```\n" % text)
    return found


def test_there_are_guides():
    assert len(GUIDES) >= 15
    assert all(any(expected is not None for _, expected in steps(name)) for name in GUIDES)


def test_every_guide_is_in_the_navigation():
    with open(os.path.join(ROOT, "docs", "site.yml"), encoding="utf-8") as file:
        told = re.findall(r": guides/(\S+\.md)\n", file.read())
    assert sorted(told) == GUIDES


@pytest.mark.parametrize("name", GUIDES)
def test_it_answers_as_printed(name, tmp_path):
    if subprocess.run([*NAMESPACES, "mount", "--make-rprivate", "/"], capture_output=True).returncode != 0:
        pytest.skip("namespaces of mounts and networks are not to be had here")
    (tmp_path / "empty").mkdir()
    lines = ["set -e", SET_UP.format(work=tmp_path, sluice=SLUICE), "set +e"]
    for number, (text, _) in enumerate(steps(name)):
        lines.append("{\n%s\n} >%s/out.%d 2>&1\necho $? >%s/status.%d" % (text, tmp_path, number, tmp_path, number))
        if re.search(r"^sluice serve .*&$", text):
            lines.append(READY % (tmp_path / "null"))
    (tmp_path / "script").write_text("\n".join(lines) + "\nexit 0\n")
    done = subprocess.run([*NAMESPACES, "bash", str(tmp_path / "script")], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (text, expected) in enumerate(steps(name)):
        status = int((tmp_path / ("status.%d" % number)).read_text())
        output = (tmp_path / ("out.%d" % number)).read_text()
        assert status == 0, "%s\n-> %d\n%s" % (text, status, output)
        if expected is not None:
            told = [line.rstrip() for line in output.replace("\r", "").rstrip("\n").split("\n")] if output else []
            assert shown.lines_agree(told, [line.rstrip() for line in expected]), \
                "%s\n-> %s\nprinted: %s" % (text, output, "\n".join(expected))
