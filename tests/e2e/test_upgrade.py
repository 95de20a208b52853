"""SIGUSR2: the program is started anew and takes everything over, under load, without one request failing.

SLUICE_UPGRADE_REQUESTS= says how many requests the one under load makes (30,000).
"""

import ctypes
import os
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

from harness import DEADLINE_S, Lines, Server, encode, still_serves, wait_until
from traffic import Traffic, total

PR_SET_CHILD_SUBREAPER = 36
REQUESTS = int(os.environ.get("SLUICE_UPGRADE_REQUESTS", "30000"))
LIMITS = "limits:\n  - {name: load, key: user, limit: fixed-window 20000/3660d}\n"
TAKEN_OVER = re.compile(r"sluice: process (\d+) has taken over: process (\d+) exits")


@pytest.fixture
def reaper():
    """Processes whose parent has ended become this one's children, so that their exit status can be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Upgraded:
    """A server through its upgrades: `pid` is the process that serves now."""

    def __init__(self, one):
        self.one, self.pid = one, one.process.pid

    def log(self):
        return self.one.stderr.text()

    def upgrade(self):
        """Sends SIGUSR2, waits until the next process serves, and holds this one to an exit status of 0."""
        before = self.pid
        os.kill(before, signal.SIGUSR2)
        wait_until(lambda: any(int(m[1]) == before for m in TAKEN_OVER.findall(self.log())) or "failed" in self.log(),
                   "no process took over")
        assert "failed" not in self.log(), self.log()
        self.pid = next(int(m[0]) for m in TAKEN_OVER.findall(self.log()) if int(m[1]) == before)
        assert self.end(before) == 0, self.log()

    def end(self, pid):
        if pid == self.one.process.pid:
            return self.one.process.wait(DEADLINE_S)
        status = wait_until(lambda: os.waitpid(pid, os.WNOHANG), f"process {pid} did not end")
        wait_until(lambda: status[0] == pid or os.waitpid(pid, os.WNOHANG)[0] == pid, f"process {pid} did not end")
        return os.waitstatus_to_exitcode(status[1])

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        if self.pid == self.one.process.pid:
            assert self.one.process.wait(DEADLINE_S) == 0
            return
        ended = []
        wait_until(lambda: ended.append(os.waitpid(self.pid, os.WNOHANG)) or ended[-1][0], "the last one did not end")
        assert os.waitstatus_to_exitcode(ended[-1][1]) == 0, self.log()


@pytest.fixture
def upgraded(server, reaper, tmp_path):
    """A factory of servers with a store in a file; each is ended by its last process."""
    started = []

    def start(policy=LIMITS, args=(), **options):
        started.append(Upgraded(server(f"store: {{file: {tmp_path}/store, memory: 8MiB}}\n" + policy, args, **options)))
        return started[-1]

    yield start
    for one in started:
        try:
            os.kill(one.pid, 0)
        except ProcessLookupError:
            continue
        one.stop()


def admit(client, user="bob"):
    return client.call("SLUICE.ADMIT", "1", "user", user)[:3]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_everything_is_taken_over(upgraded, threads):
    one = upgraded(args=["--threads", threads])
    with one.one.resp() as resp, one.one.http() as http, one.one.resp() as half, one.one.resp() as silent:
        silent.call("HELLO", "3")
        half.send(encode("SLUICE.ADMIT", "1", "user", "bob")[:20])
        assert admit(resp) == [1, 20000, 19999]
        assert http.post("/v1/admit", {"attributes": {"user": "bob"}})[2]["remaining"] == 19998
        for i in range(3):
            one.upgrade()
            assert admit(resp) == [1, 20000, 19997 - 3 * i]
            assert http.post("/v1/admit", {"attributes": {"user": "bob"}})[2]["remaining"] == 19996 - 3 * i
            with one.one.resp() as fresh:
                assert admit(fresh) == [1, 20000, 19995 - 3 * i]
        half.send(encode("SLUICE.ADMIT", "1", "user", "bob")[20:])  # begun three processes ago
        assert half.read()[:3] == [1, 20000, 19988]
        assert isinstance(silent.call("SLUICE.PEEK", "a", "1", "5/1h"), list)
        assert silent.call("HELLO")[b"proto"] == 3  # what a client has said of itself is not forgotten
    assert one.log().count("sluice: ready") == 4


def clients_told(one):
    """Connections and decisions by the names that clients gave, but for the connection that asks."""
    with one.one.http() as http:
        told = http.ask("GET", "/v1/figures")[2]["clients"]
    return {(client["door"], client["name"], client["version"]): (client["connections"], client["allowed"])
            for client in told if client["name"]}


def test_clients_keep_their_names(upgraded):
    """A connection over RESP is counted by its client's name in the next process without a word more, since the name
    moves with it; one over HTTP from its next request on, which says it again. Decisions are counted from the start of
    each process, as all figures are."""
    one = upgraded(args=["--threads", "2"])
    resp_name, http_name = ("resp", "redis-py(app)", "5.0.1"), ("http", "shop", "2.1")
    with one.one.resp() as resp, one.one.http() as http:
        def ask():
            assert admit(resp)[0] == 1
            assert http.ask("POST", "/v1/admit", b'{"attributes":{"user":"bob"}}', {"User-Agent": "shop/2.1"})[0] == 200

        resp.call("CLIENT", "SETINFO", "LIB-NAME", "redis-py(app)")
        resp.call("CLIENT", "SETINFO", "LIB-VER", "5.0.1")
        ask()
        assert clients_told(one) == {resp_name: (1, 1), http_name: (1, 1)}
        for _ in range(2):
            one.upgrade()
            wait_until(lambda: clients_told(one) == {resp_name: (1, 0)}, "the name has not moved")
            ask()
            assert clients_told(one) == {resp_name: (1, 1), http_name: (1, 1)}


def test_many_connections_move(upgraded):
    """More than the channel holds at a time."""
    one = upgraded(args=["--threads", "2"])
    clients = [one.one.resp() if i % 2 else one.one.http() for i in range(600)]
    assert all(client.call("PING") == b"PONG" for client in clients[1::2])
    assert all(client.ask("GET", "/healthz")[0] == 200 for client in clients[::2])
    one.upgrade()  # waits for the end of the old process: all have moved
    assert all(client.call("PING") == b"PONG" for client in clients[1::2])
    assert all(client.ask("GET", "/healthz")[0] == 200 for client in clients[::2])
    for client in clients:
        client.close()


def test_under_load_no_request_fails(upgraded):
    """Callers of every kind at full speed, new connections all the time; one counter, exact to the last unit."""
    quota = REQUESTS // 2
    one = upgraded(LIMITS.replace("20000", str(quota)), ["--threads", "2"])
    upgrades = 0
    with Traffic(one.one, "bob", [quota]) as traffic:
        with one.one.resp() as watcher:
            def answered():
                return int(re.search(rb"total_commands_processed:(\d+)", watcher.call("INFO", "stats"))[1])
            done = 0
            while done < REQUESTS or upgrades < 3:
                goal = min(REQUESTS // 10, 20000)
                end = time.monotonic() + DEADLINE_S
                while answered() < goal and time.monotonic() < end:
                    time.sleep(0.01)
                done += answered()
                one.upgrade()
                upgrades += 1
        said = traffic.stop()
    assert len(said) == 5
    assert [caller["failures"] for caller in said] == [[]] * 5, one.log()
    assert total(said, "requests") >= REQUESTS and all(caller["requests"] > 0 for caller in said)
    assert total(said, "allowed") == quota
    print(f"{total(said, 'requests')} requests, 0 failed, {upgrades} upgrades, {total(said, 'allowed')} of {quota}",
          {caller["kind"]: caller["requests"] for caller in said})


def test_a_unix_socket_stays(sluice_bin, reaper, tmp_path):
    path, policy = tmp_path / "s.sock", tmp_path / "policy.yaml"
    policy.write_text(f'store: {{file: {tmp_path}/store, memory: 4MiB}}\n'
                      f'listen: {{resp: {{address: "unix:{path}", mode: 0604}}, http: "127.0.0.1:0"}}\n')
    process = subprocess.Popen([sluice_bin, "serve", "-c", str(policy)], stderr=subprocess.PIPE)
    log = Lines(process.stderr)
    log.wait_for(lambda line: line == "sluice: ready")
    inode = path.stat().st_ino
    process.send_signal(signal.SIGUSR2)
    log.wait_for(TAKEN_OVER.fullmatch)
    assert process.wait(DEADLINE_S) == 0
    assert path.stat().st_ino == inode and stat.S_IMODE(path.stat().st_mode) == 0o604
    pid = int(TAKEN_OVER.search(log.text())[1])
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "the second process did not end")
    assert not path.exists()


def test_private_memory_is_refused(server):
    one = server(LIMITS)
    one.process.send_signal(signal.SIGUSR2)
    one.stderr.wait_for(lambda line: line.startswith("sluice: no upgrade: the counters are in private memory"))
    still_serves(one)


def spoil_policy(one):
    with open(one.policy_file, "a", encoding="utf-8") as file:
        file.write("nonsense: [\n")


def test_a_process_that_dies_changes_nothing(upgraded):
    """The policy is broken when the new process reads it: it ends, and the old one goes on."""
    one = upgraded()
    with one.one.resp() as client:
        assert admit(client) == [1, 20000, 19999]
        whole = open(one.one.policy_file, encoding="utf-8").read()
        spoil_policy(one.one)
        os.kill(one.pid, signal.SIGUSR2)
        one.one.stderr.wait_for(lambda line: line == "sluice: the upgrade failed: the new process ended before it was "
                                f"ready (it ended with status 2); process {one.pid} keeps serving")
        assert admit(client) == [1, 20000, 19998]
        still_serves(one.one)
        with open(one.one.policy_file, "w", encoding="utf-8") as file:
            file.write(whole)
        os.kill(one.pid, signal.SIGUSR2)  # and once it is whole again, so is the upgrade
        one.one.stderr.wait_for(TAKEN_OVER.fullmatch)
        one.pid = int(TAKEN_OVER.search(one.log())[1])
        assert one.one.process.wait(DEADLINE_S) == 0
        assert admit(client) == [1, 20000, 19997]


@pytest.fixture
def replaceable(sluice_bin, tmp_path):
    """The program, in a place where it can be replaced."""
    path = tmp_path / "sluice"
    shutil.copy(sluice_bin, path)
    one = Server(str(path), f"store: {{file: {tmp_path}/store, memory: 4MiB}}\n" + LIMITS)
    yield one, path
    if one.process.returncode is None:
        one.stop()


def put_script(path, script):
    new = path.with_suffix(".new")
    new.write_text("#!/bin/sh\n" + script)
    new.chmod(0o755)
    os.replace(new, path)


@pytest.mark.parametrize("script, words", [
    ("exit 7", "the new process ended before it was ready (it ended with status 7)"),
    ("kill -9 $$", "the new process ended before it was ready (it was ended by signal 9)"),
    ("exec /usr/bin/python3 -c 'import os, time; os.write(int(os.environ[\"SLUICE_UPGRADE_CHANNEL\"]), b\"nonsense\"); "
     "time.sleep(60)'",
     "the new process speaks another version of the handover protocol (it was ended by signal 9)"),
])
def test_a_broken_program_changes_nothing(replaceable, script, words):
    one, path = replaceable
    with one.resp() as client:
        assert admit(client) == [1, 20000, 19999]
        put_script(path, script)
        one.process.send_signal(signal.SIGUSR2)
        one.stderr.wait_for(lambda line: line == f"sluice: the upgrade failed: {words}; process "
                            f"{one.process.pid} keeps serving")
        assert admit(client) == [1, 20000, 19998]
        still_serves(one)


def test_a_program_that_is_gone_changes_nothing(replaceable):
    one, path = replaceable
    path.unlink()
    one.process.send_signal(signal.SIGUSR2)
    one.stderr.wait_for(lambda line: line == f"sluice: no upgrade: can't start {path}: No such file or directory")
    still_serves(one)


def test_a_program_that_hangs_is_ended_with_the_server(replaceable):
    """While one attempt is under way another is refused; SIGTERM ends both processes."""
    one, path = replaceable
    put_script(path, "exec sleep 60")
    one.process.send_signal(signal.SIGUSR2)
    one.stderr.wait_for(lambda line: line.endswith("was started to take over"))
    one.process.send_signal(signal.SIGUSR2)
    one.stderr.wait_for(lambda line: line == "sluice: no upgrade: another upgrade is under way")
    still_serves(one)
    other = int(re.search(r"upgrade: process (\d+) was started", one.stderr.text())[1])
    one.stop()
    assert not os.path.exists(f"/proc/{other}")
    one.stderr.wait_for(lambda line: "the upgrade failed: the server is shutting down" in line)


def test_nothing_else_is_inherited(upgraded):
    """The new process has no more descriptors than one that was started by hand."""
    one = upgraded()

    def open_files():
        return os.listdir(f"/proc/{one.pid}/fd")

    first = open_files()
    for _ in range(2):
        clients = [one.one.resp() for _ in range(20)]
        assert all(admit(client)[0] == 1 for client in clients)
        one.upgrade()
        assert all(admit(client)[0] == 1 for client in clients)
        for client in clients:
            client.close()
        wait_until(lambda: len(open_files()) <= len(first), "descriptors left over: " + repr(open_files()))
    environment = open(f"/proc/{one.pid}/environ", "rb").read()
    assert environment.count(b"SLUICE_UPGRADE_CHANNEL=") == 1  # of the process' start: it has been taken out since


def test_new_addresses_are_listened_on(upgraded):
    """An upgrade is how `listen` changes without an end."""
    one = upgraded()
    assert one.one.alive()
    with open(one.one.policy_file, "a", encoding="utf-8") as file:
        file.write("threads: 2\n")
    one.upgrade()
    with one.one.resp() as client:
        assert b"sluice_threads:2\r\n" in client.call("INFO", "sluice")


def test_a_channel_that_is_none_is_refused(sluice_bin):
    for value in ("9999", "0", "x", "-1"):
        done = subprocess.run([sluice_bin, "serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                              env={**os.environ, "SLUICE_UPGRADE_CHANNEL": value}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 2 and b"no server of this kind hands over there" in done.stderr, done.stderr
