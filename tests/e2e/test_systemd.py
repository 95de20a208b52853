"""What systemd is told and what it gives: notifications, watchdog, sockets, and the units themselves."""

import configparser
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

from harness import DEADLINE_S, ROOT, Http, Lines, Resp, wait_until
from ports import free_port

POLICY = "limits:\n  - {name: load, key: user, limit: fixed-window 9/3660d}\n"
LISTEN = ["--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"]


class Manager:
    """A notification socket: what was said, and by which process."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(address)
        self.name = address.replace("\0", "@")

    def next(self):
        self.socket.settimeout(DEADLINE_S)
        data, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        return data.decode().split("\n"), struct.unpack("iii", control[0][2])[0]

    def until(self, word):
        while True:
            state, pid = self.next()
            if any(line.startswith(word) for line in state):
                return state, pid


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    one = Manager(str(tmp_path / "notify") if request.param == "path" else f"\0sluice-test-{os.getpid()}")
    yield one
    one.socket.close()


def start(sluice_bin, args, **options):
    process = subprocess.Popen([sluice_bin, "serve", *args], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               **options)
    return process, Lines(process.stderr)


def end(process, log):
    process.terminate()
    assert process.wait(DEADLINE_S) == 0, log.text()


def test_a_life_is_told(sluice_bin, manager, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    process, log = start(sluice_bin, [*LISTEN, "-c", str(policy)], env={**os.environ, "NOTIFY_SOCKET": manager.name})
    state, pid = manager.next()
    assert state == ["READY=1", "STATUS=serving 1 limits"] and pid == process.pid
    for text, status in ((POLICY, "STATUS=serving 1 limits"), ("nonsense: 1\n", "STATUS=serving 1 limits")):
        policy.write_text(text)
        before = time.monotonic_ns() // 1000
        process.send_signal(signal.SIGHUP)
        state, _ = manager.next()
        assert state[0] == "RELOADING=1" and before <= int(state[1].removeprefix("MONOTONIC_USEC="))
        assert int(state[1].removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
        assert manager.next()[0] == ["READY=1", status]
    process.terminate()
    assert manager.until("STOPPING")[0][0] == "STOPPING=1"
    assert process.wait(DEADLINE_S) == 0, log.text()


def test_a_front_end_is_started_when_it_is_ready(sluice_bin, tmp_path):
    """No node answers: the manager is asked for patience, then told, once `ready-after` is over."""
    manager, policy = Manager(str(tmp_path / "notify")), tmp_path / "policy.yaml"
    policy.write_text("store: {redis: '127.0.0.1:%d', ready-after: 1h}\n" % free_port() + POLICY)
    process, log = start(sluice_bin, [*LISTEN, "-c", str(policy)], env={**os.environ, "NOTIFY_SOCKET": manager.name})
    assert manager.next()[0] == ["EXTEND_TIMEOUT_USEC=3610000000"]
    policy.write_text(policy.read_text().replace("1h", "0s", 1))
    process.send_signal(signal.SIGHUP)
    assert manager.next()[0][0] == "RELOADING=1"
    assert manager.next() == (["READY=1", "STATUS=serving 1 limits"], process.pid)
    assert "redis has not answered" in log.text()
    end(process, log)
    manager.socket.close()


@pytest.mark.parametrize("pid, fed", [(None, True), ("own", True), ("1", False)])
def test_the_watchdog_is_fed_in_half_its_time(sluice_bin, tmp_path, pid, fed):
    manager = Manager(str(tmp_path / "notify"))
    environment = {**os.environ, "NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"}
    if pid == "1":
        environment["WATCHDOG_PID"] = pid
    command = [sluice_bin, "serve", *LISTEN]
    if pid == "own":
        command = ["/bin/sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh", *command]
    begin = time.monotonic()  # before it says anything, for what it says may be read late
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    log = Lines(process.stderr)
    assert manager.next()[0][0] == "READY=1"
    if fed:
        for _ in range(3):
            assert manager.next()[0] == ["WATCHDOG=1"]
        assert 1.5 <= time.monotonic() - begin
    end(process, log)
    assert manager.next()[0][0] == ("STOPPING=1") or fed
    manager.socket.close()


def test_an_upgrade_is_told_in_the_right_order(sluice_bin, tmp_path):
    """systemd hears only the main process: the old one names the new one before that one speaks."""
    manager, policy = Manager(str(tmp_path / "notify")), tmp_path / "policy.yaml"
    policy.write_text(f"store: {{file: {tmp_path}/store, memory: 4MiB}}\n" + POLICY)
    process, log = start(sluice_bin, [*LISTEN, "-c", str(policy)],
                         env={**os.environ, "NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "60000000"})
    assert manager.next() == (["READY=1", "STATUS=serving 1 limits"], process.pid)
    process.send_signal(signal.SIGUSR2)
    state, pid = manager.next()
    new = int(state[0].removeprefix("MAINPID="))
    assert pid == process.pid and new != process.pid and state[2:] == ["WATCHDOG=1"]
    assert manager.next() == (["READY=1", "STATUS=serving 1 limits"], new)
    assert process.wait(DEADLINE_S) == 0, log.text()
    os.kill(new, signal.SIGTERM)
    assert manager.next()[0][0] == "STOPPING=1"
    manager.socket.close()


# ---- given sockets -----------------------------------------------------------------------------------------------

def listening(kind=socket.SOCK_STREAM):
    one = socket.socket(socket.AF_INET, kind)
    one.bind(("127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        one.listen()
    return one


def start_given(sluice_bin, sockets, names=None, args=(), pid="$$", count=None):
    """As systemd does it: descriptors from 3 on, and variables that say so to this very process."""
    def place():
        moved = [os.dup2(one.fileno(), 100 + i) for i, one in enumerate(sockets)]
        for i, fd in enumerate(moved):
            os.dup2(fd, 3 + i, inheritable=True)
            os.close(fd)

    environment = {**os.environ, "LISTEN_FDS": str(len(sockets) if count is None else count)}
    if names is not None:
        environment["LISTEN_FDNAMES"] = names
    process = subprocess.Popen(["/bin/sh", "-c", f'LISTEN_PID={pid} exec "$@"', "sh", sluice_bin, "serve", *args],
                               env=environment, stderr=subprocess.PIPE, preexec_fn=place, close_fds=False)
    return process, Lines(process.stderr)


@pytest.mark.parametrize("names, swapped", [(None, False), ("sluice.socket:sluice.socket", False),
                                            ("resp:http", False), ("http:resp", True)])
def test_given_sockets_are_served(sluice_bin, names, swapped):
    resp, http = listening(), listening()
    sockets = [http, resp] if swapped else [resp, http]
    process, log = start_given(sluice_bin, sockets, names)
    log.wait_for(lambda line: line == "sluice: ready")
    with Resp(resp.getsockname()[1]) as client:
        assert client.call("PING") == b"PONG"
    with Http(http.getsockname()[1]) as client:
        assert client.ask("GET", "/readyz")[0] == 200
    assert log.text().count(" on 127.0.0.1:") == 2  # in place of the two defaults
    end(process, log)


def test_given_sockets_of_one_door(sluice_bin, tmp_path):
    """Two of HTTP are given, one a unix socket that is not ours to remove; RESP listens where the policy says."""
    path = tmp_path / "s.sock"
    http, unix = listening(), socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    unix.listen()
    process, log = start_given(sluice_bin, [http, unix], "http:http", LISTEN[:2])
    log.wait_for(lambda line: line == "sluice: ready")
    assert f"sluice: http on unix:{path}" in log.lines
    assert re.search(r"resp on 127\.0\.0\.1:\d+\nsluice: http on", log.text())
    end(process, log)
    assert path.exists()


@pytest.mark.parametrize("make, words", [
    (lambda: [listening(socket.SOCK_DGRAM)], "it is not a stream socket"),
    (lambda: [socket.socket()], "nothing listens on it"),
    (lambda: [listening(), listening(), listening()], "socket 3 of those given is named ''"),
])
def test_what_can_not_be_served_is_refused(sluice_bin, make, words):
    process, log = start_given(sluice_bin, make())
    assert process.wait(DEADLINE_S) == 2
    wait_until(lambda: log.ended, "the log's end")
    assert words in log.text()


def test_descriptors_that_are_not_there(sluice_bin):
    process, log = start_given(sluice_bin, [], count="many")
    assert process.wait(DEADLINE_S) == 2
    wait_until(lambda: log.ended, "the log's end")
    assert "LISTEN_FDS does not say" in log.text()


def test_what_is_meant_for_another_is_left_alone(sluice_bin):
    given = listening()
    process, log = start_given(sluice_bin, [given], args=LISTEN, pid="1")
    log.wait_for(lambda line: line == "sluice: ready")
    assert f":{given.getsockname()[1]}" not in log.text()
    end(process, log)


def test_given_sockets_survive_an_upgrade(sluice_bin, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"store: {{file: {tmp_path}/store, memory: 4MiB}}\n" + POLICY)
    resp, http = listening(), listening()
    process, log = start_given(sluice_bin, [resp, http], args=["-c", str(policy)])
    log.wait_for(lambda line: line == "sluice: ready")
    with Resp(resp.getsockname()[1]) as client:
        process.send_signal(signal.SIGUSR2)
        assert process.wait(DEADLINE_S) == 0, log.text()
        assert client.call("SLUICE.ADMIT", "1", "user", "a")[:3] == [1, 9, 8]
        with Http(http.getsockname()[1]) as fresh:
            assert fresh.ask("GET", "/readyz")[0] == 200
    os.kill(int(re.search(r"process (\d+) has taken over", log.text())[1]), signal.SIGTERM)


def test_by_systemd_itself(sluice_bin):
    """systemd-socket-activate, where it is installed: what stands above is its protocol."""
    program = shutil.which("systemd-socket-activate")
    if program is None:
        return
    ports = [one.getsockname()[1] for one in (listening(), listening())]
    process = subprocess.Popen([program, "-l", f"127.0.0.1:{ports[0]}", "-l", f"127.0.0.1:{ports[1]}", sluice_bin,
                                "serve"], stderr=subprocess.PIPE)
    log = Lines(process.stderr)
    log.wait_for(lambda line: line.startswith(f"Listening on 127.0.0.1:{ports[1]}"))
    with Resp(ports[0]) as client:  # the connection starts it
        assert client.call("PING") == b"PONG"
    with Http(ports[1]) as client:
        assert client.ask("GET", "/readyz")[0] == 200
    end(process, log)


# ---- the units ---------------------------------------------------------------------------------------------------

@pytest.fixture
def units(sluice_bin, tmp_path):
    """The two units as they are installed, with the program under test in the program's place."""
    with open(os.path.join(ROOT, "systemd", "sluice.service.in"), encoding="utf-8") as file:
        text = file.read()
    assert "@PREFIX@/bin/sluice serve" in text
    text = text.replace("@PREFIX@/bin/sluice", sluice_bin).replace("@PREFIX@", "/usr")
    (tmp_path / "sluice.service").write_text(text)
    shutil.copy(os.path.join(ROOT, "systemd", "sluice.socket"), tmp_path)
    return [str(tmp_path / "sluice.service"), str(tmp_path / "sluice.socket")]


def test_the_units_say_what_they_should(units):
    parsers = []
    for unit in units:
        parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        parser.optionxform = str
        assert parser.read(unit) == [unit]
        parsers.append(parser)
    service = parsers[0]["Service"]
    assert service["Type"] == "notify" and service["ExecStart"].endswith(" serve -c /etc/sluice/sluice.yaml")
    for key in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictRealtime",
                "MemoryDenyWriteExecute", "RestrictNamespaces", "LockPersonality", "RestrictSUIDSGID"):
        assert service[key] == "yes", key
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
    assert service["StateDirectory"] == service["RuntimeDirectory"] == "sluice"
    with open(units[1], encoding="utf-8") as file:  # the order that names without a meaning are taken by
        assert re.findall(r"ListenStream=(.*)", file.read()) == ["127.0.0.1:7379", "127.0.0.1:7380"]


def test_systemd_understands_the_units(units):
    if shutil.which("systemd-analyze") is None:
        return
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    assert done.returncode == 0 and "sluice" not in done.stderr, done.stderr
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=20", units[0]],
                          capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout  # an exposure above 2.0 of 10
