"""Standard descriptors that whoever starts the program has closed: nothing that it opens may take their place, or what
it prints goes into a store, or to a server."""

import os
import re
import signal
import socket
import subprocess

import pytest

from harness import DEADLINE_S, wait_until


@pytest.fixture
def run(sluice_bin, tmp_path):
    """run(args..., closed=[1]) -> (status, stdout, stderr), with these descriptors closed."""
    def start(*args, closed=()):
        done = subprocess.run(["sh", "-c", "exec \"$@\" " + " ".join(f"{fd}>&-" for fd in closed), "sh", sluice_bin,
                               *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path,
                              timeout=DEADLINE_S, check=False)
        return done.returncode, done.stdout, done.stderr.decode()
    return start


@pytest.fixture
def store(run, tmp_path):
    path = tmp_path / "counters"
    assert run("store", "create", path, "--memory", "1MiB")[0] == 0
    assert run("check", "ann", "5/1h", "--store", path)[0] == 0
    return path


def counters(run, store):
    status, out, err = run("inspect", "--store", store)
    assert (status, err) == (0, ""), err
    return int(re.search(rb"^slots +(\d+)", out, re.M)[1])


@pytest.mark.parametrize("closed", [[1], [2], [1, 2], [0], [0, 1, 2]])
def test_a_dump_does_not_go_into_the_store(run, store, closed):
    status, out, err = run("store", "dump", store, closed=closed)
    assert counters(run, store) == 1
    assert status == (2 if 1 in closed else 0)
    assert len(out) == 0 if 1 in closed else len(out) > 0
    if closed == [1]:
        assert "Bad file descriptor" in err and "dumped" not in err


@pytest.mark.parametrize("closed", [[2], [1, 2], [0, 1, 2]])
def test_an_error_does_not_go_into_the_store(run, store, closed):
    assert run("check", "ann", "no limit", "--store", store, closed=closed)[0] == 2
    assert run("store", "dump", store, "-o", "no/where", closed=closed)[0] == 2
    assert counters(run, store) == 1


def test_standard_input_is_no_file_that_was_opened(run, store, tmp_path):
    status, _, err = run("store", "load", tmp_path / "new", closed=[0])
    assert status == 2
    assert "Bad file descriptor" in err, err
    status, _, err = run("replay", "-", "--limit", "5/1m", closed=[0])
    assert status == 2 and "Bad file descriptor" in err


def answers(path):
    """Does a server answer at its socket? It does once it handles signals, too."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(DEADLINE_S)
        if not path.exists() or s.connect_ex(str(path)) != 0:
            return False
        s.sendall(b"PING\r\n")
        return s.recv(100) == b"+PONG\r\n"


def test_a_log_does_not_go_into_the_store(sluice_bin, run, store, tmp_path):
    (tmp_path / "policy.yaml").write_text(
        f"listen: {{resp: 'unix:{tmp_path}/sock', http: '127.0.0.1:0'}}\n"
        f"store: {{file: {store}, memory: 1MiB}}\nlimits: []\n")
    one = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sluice_bin, "serve", "-c",
                            str(tmp_path / "policy.yaml")])
    try:
        wait_until(lambda: answers(tmp_path / "sock") or one.poll() is not None, "it answers")
        one.send_signal(signal.SIGHUP)  # it logs that it has loaded the policy again
        wait_until(lambda: answers(tmp_path / "sock"), "it answers")
        assert [os.readlink(f"/proc/{one.pid}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3
    finally:
        one.send_signal(signal.SIGTERM)
        assert one.wait(DEADLINE_S) == 0
    assert counters(run, store) == 1


def test_a_list_does_not_go_to_the_server(run, server):
    one = server()
    status, out, err = run("top", "--once", "--server", f"127.0.0.1:{one.resp_port}", closed=[1])
    assert (status, out) == (2, b"") and "Bad file descriptor" in err
