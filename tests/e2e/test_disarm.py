"""Nobody disarms a running server by what stands in its files, and no file holds it up: emptied and cut policies by
every way of reloading; pipes, folders and disks that don't answer in the place of the policy, a certificate, its key, a
client CA; and SIGTERM, which ends it all the while and is told of.

The number of reloads under traffic grows with SLUICE_SOAK_SECONDS.
"""

import contextlib
import hashlib
import itertools
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from harness import DEADLINE_S, ROOT, RespError, encode, machine_is_slow, still_serves, wait_until
from test_tls import certificate

SOAK_S = float(os.environ.get("SLUICE_SOAK_SECONDS", "0"))
TOKEN = "a" * 40
USERS = f"users:\n  - {{name: boss, token: \"sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\", role: admin}}\n"
LIMITS = "limits:\n  - {name: a, key: user, limit: fixed-window 5/3660d}\n"
NINE = LIMITS.replace("5/", "9/")
ALL = "listen: {resp: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\nthreads: 2\n" + USERS + "anonymous: check\n" + LIMITS

LITTLE = {  # what is left, and what is said of it
    "empty": ("", "expected a policy, found nothing: write limits: []"),
    "newline": ("\n", "expected a policy, found nothing"),
    "comment": ("# nothing\n", "expected a policy, found nothing"),
    "braces": ("{}\n", "expected a policy, found nothing"),
    "cut behind listen": (ALL[:ALL.index("threads")], "it has no limits, and does not say limits: []"),
    "cut behind users": (ALL[:ALL.index("anonymous")], "it has no limits, and does not say limits: []"),
    "cut after limits:": (ALL[:ALL.index("  - {name: a, key")], "expected a list of limits, found nothing"),
    "without users": (LIMITS, "it has no users, and does not say users: []"),
}


def by_signal(one):
    one.process.send_signal(signal.SIGHUP)


def by_http(one):
    with one.http() as http:
        status, _, body = http.ask("POST", "/v1/reload", b"", {"Authorization": "Bearer " + TOKEN})
        assert (status, body["reloaded"]) in ((409, False), (422, False)), body


def by_resp(one):
    with one.resp() as client:
        client.call("AUTH", "boss", TOKEN)
        with pytest.raises(RespError):
            client.call("SLUICE.RELOAD")


def by_itself(one):
    pass


def put(one, text):
    """At once, as by a rename: so what is followed is never half a file."""
    with open(one.policy_file + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(one.policy_file + ".new", one.policy_file)


def is_armed(one, quota=5):
    with one.resp() as client:
        with pytest.raises(RespError, match="NOAUTH|NOPERM"):
            client.call("SLUICE.RESET", "k", "1/1m")
        return client.call("SLUICE.ADMIT", "0", "user", "a")[1] == quota


# by itself an empty file is not even looked at: somebody is about to write it
@pytest.mark.parametrize("way, what", [(way, what) for way in (by_signal, by_http, by_resp, by_itself)
                                       for what in LITTLE if way is not by_itself or what != "empty"])
def test_a_reload_never_disarms(server, way, what):
    text, says = LITTLE[what]
    one = server(ALL, listen=())
    assert is_armed(one)
    put(one, text)
    way(one)
    one.stderr.wait_for(lambda line: says in line)
    one.stderr.wait_for(lambda line: "was rejected" in line)
    assert is_armed(one)
    put(one, ALL.replace("fixed-window 5", "fixed-window 7"))
    wait_until(lambda: is_armed(one, 7), "the whole policy")


@pytest.mark.parametrize("threads", [1, 3])
def test_answers_keep_their_order_around_a_reload(server, threads):
    one = server(LIMITS + f"threads: {threads}\n")
    with one.resp() as client, one.http() as http:
        for turn in range(20):
            put(one, (NINE if turn % 2 == 0 else LIMITS) + f"threads: {threads}\n")
            quota, before = (9, 5) if turn % 2 == 0 else (5, 9)
            client.send(encode("ECHO", turn) + encode("SLUICE.ADMIT", 0, "user", "a") + encode("SLUICE.RELOAD") +
                        encode("ECHO", "then") + encode("SLUICE.RELOAD") + encode("ECHO", "end"))
            got = [client.read() for _ in range(6)]
            assert [got[0], *got[2:]] == [str(turn).encode(), b"OK", b"then", b"OK", b"end"]
            assert got[1][1] in (before, quota)
            wait_until(lambda quota=quota: admit_quota(client) == quota, "the new quota")
            assert http.post("/v1/reload", b"")[2]["reloaded"] is True


def admit_quota(client):
    return client.call("SLUICE.ADMIT", 0, "user", "a")[1]


def test_who_means_none_says_so(server):
    one = server(ALL, listen=())
    put(one, "users: []\nlimits: []\n")
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: line.startswith("sluice: loaded "))
    with one.resp() as client:
        wait_until(lambda: client.call("SLUICE.ADMIT", 1, "user", "a")[1] == 4294967295, "a policy without limits")
        assert client.call("SLUICE.RESET", "k", "1/1m") == 0
    put(one, "threads: 2\n")  # who had none loses none
    one.process.send_signal(signal.SIGHUP)
    wait_until(lambda: one.stderr.text().count("sluice: loaded ") == 2, "a policy that says nothing of limits")


@pytest.mark.parametrize("what", ["cut behind listen", "without users", "comment"])
def test_an_upgrade_never_disarms(server, tmp_path, what):
    one = server(f"store: {{file: {tmp_path}/counters, memory: 1MiB}}\n" + ALL, listen=())
    put(one, f"store: {{file: {tmp_path}/counters, memory: 1MiB}}\n" * (what != "comment") + LITTLE[what][0])
    one.process.send_signal(signal.SIGUSR2)
    one.stderr.wait_for(lambda line: "the upgrade failed" in line)
    assert LITTLE[what][1] in one.stderr.text()
    assert is_armed(one)


# ---- what is no file -------------------------------------------------------------------------------------------------

def instead(path, kind):
    """Puts something else in the place of a file."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, path + ".was")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "device":
        os.symlink("/dev/zero", path)
    elif kind == "circle":
        os.symlink(path, path)


def is_healthy(one):
    with one.http() as http:
        return http.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("kind, says", [("fifo", "it is a pipe"), ("folder", "Is a directory"),
                                        ("device", "it is not a regular file"), ("circle", "symbolic links")])
@pytest.mark.parametrize("way", [by_signal, by_http, by_resp, by_itself])
def test_what_is_no_file_holds_nobody_up(server, way, kind, says):
    one = server(ALL, listen=())
    instead(one.policy_file, kind)
    way(one)
    one.stderr.wait_for(lambda line: says in line)
    assert is_healthy(one) and is_armed(one)
    one.ask_to_end()
    assert one.process.wait(DEADLINE_S) == 0
    one.stderr.wait_for(lambda line: line == "sluice: SIGTERM: ending")


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("pems"))
    certificate(folder, "ca", subject="Test CA")
    certificate(folder, "server", issuer="ca")
    return folder


@pytest.mark.parametrize("which", ["server.pem", "server.key", "ca.pem"])
def test_a_pipe_in_the_place_of_a_certificate(server, pems, tmp_path, which):
    """Nobody asks for a reload: the file is followed."""
    for name in ("server.pem", "server.key", "ca.pem"):
        with open(f"{pems}/{name}", "rb") as f:
            (tmp_path / name).write_bytes(f.read())
    one = server(f"tls: {{certificate: {tmp_path}/server.pem, key: {tmp_path}/server.key, "
                 f"client-ca: {tmp_path}/ca.pem}}\n" + LIMITS)
    instead(str(tmp_path / which), "fifo")
    one.stderr.wait_for(lambda line: f"{which}: it is a pipe: a file is needed" in line)
    assert is_healthy(one)
    still_serves(one)
    os.rename(tmp_path / (which + ".was"), tmp_path / which)
    wait_until(lambda: "sluice: loaded " in one.stderr.text(), "the file that is back")


def test_a_pipe_will_do_at_the_start(sluice_bin, tmp_path):
    """`-c /dev/stdin`, or what a shell makes of <(..): read once, and not followed."""
    process = subprocess.Popen([sluice_bin, "serve", "-c", "/dev/stdin", "--resp", "127.0.0.1:0", "--http",
                                "127.0.0.1:0"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdin.write(LIMITS.encode())
        process.stdin.close()
        lines = iter(process.stderr.readline, b"")
        assert any(line == b"sluice: ready\n" for line in lines)
        time.sleep(2.5)  # two looks
        process.send_signal(signal.SIGHUP)
        said = next(lines).decode()
        assert "can't read the policy /dev/stdin: it is a pipe" in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


# ---- a disk that doesn't answer --------------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def stuck_disk(tmp_path_factory):
    shim = str(tmp_path_factory.mktemp("stuck") / "stuck_disk.so")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", "-o", shim,
                    os.path.join(ROOT, "tests", "e2e", "stuck_disk.c")], check=True, timeout=120)
    return shim


@pytest.fixture
def stuck(server, stuck_disk):
    """A server whose next policy lies on such a disk."""
    one = server(LIMITS, wrapper=("env", "LD_PRELOAD=" + stuck_disk))
    with open(one.policy_file + ".stuck", "w", encoding="utf-8") as f:
        f.write(NINE)
    os.symlink(one.policy_file + ".stuck", one.policy_file + ".new")
    os.rename(one.policy_file + ".new", one.policy_file)
    return one


def test_who_asks_for_a_reload_is_told_that_the_disk_does_not_answer(stuck):
    with stuck.resp() as client:
        asked = time.monotonic()
        client.send(encode("SLUICE.RELOAD"))  # once: call() asks again
        told = client.read()
        assert isinstance(told, RespError) and machine_is_slow(told) and "keeping the current policy" in str(told)
        assert time.monotonic() - asked >= 10
        assert client.call("SLUICE.ADMIT", 0, "user", "a")[1] == 5


@pytest.mark.parametrize("way", ["signal", "http", "itself"])
def test_a_disk_that_does_not_answer_holds_nobody_up(stuck, way):
    one = stuck
    if way == "signal":
        one.process.send_signal(signal.SIGHUP)
    told = []

    def ask():
        with one.http() as http:
            told.append(http.post("/v1/reload", b""))

    asker = threading.Thread(target=ask)
    if way == "http":
        asker.start()
    time.sleep(2.5)  # for what is followed
    for _ in range(20):
        assert is_healthy(one)
        with one.resp() as client:
            assert client.call("SLUICE.ADMIT", 0, "user", "a")[1] == 5
    one.ask_to_end()
    if way == "http":  # told before the end
        asker.join(DEADLINE_S)
        assert told[0][0] == 409 and "shutting down" in told[0][2]["detail"]
    assert one.process.wait(DEADLINE_S) == 0
    one.stderr.wait_for(lambda line: line == "sluice: SIGTERM: ending")
    one.stderr.wait_for(lambda line: "the thread that reads them is abandoned" in line)


# ---- all of it under traffic -----------------------------------------------------------------------------------------

def test_reloads_of_anything_under_traffic(server):
    """No request passes without its limits: a counter that is used up stays so, every answer names the limit; and
    /healthz answers throughout."""
    count = 200 if SOAK_S else 60
    dice = random.Random(12)
    one = server(ALL, listen=())
    with one.resp() as client:
        for _ in range(9):
            client.call("SLUICE.ADMIT", 1, "user", "used-up")
    over, asked, failures = threading.Event(), [0, 0], []

    def ask():
        with one.resp() as client:
            while not over.is_set():
                used = client.call("SLUICE.ADMIT", 1, "user", "used-up")
                fresh = client.call("SLUICE.ADMIT", 0, "user", "fresh")
                asked[0] += 2
                # 5 of 9 are used: whoever asks while 9 are allowed may get the rest, and then nobody any more
                if used[7] != b"a" or used[1] not in (5, 9) or fresh[7] != b"a" or fresh[1] not in (5, 9):
                    failures.append((used, fresh))

    def look():
        while not over.is_set():
            if not is_healthy(one):
                failures.append("healthz")
            asked[1] += 1

    def checked(work):
        try:
            work()
        except BaseException as why:  # told below
            failures.append(why)

    threads = [threading.Thread(target=checked, args=[work]) for work in (ask, ask, look)]
    for thread in threads:
        thread.start()
    kinds, ways = [], itertools.cycle(["signal", "http", "resp"])
    for turn in range(count):
        kind = dice.choice(["good", "empty", "cut", "fifo", "folder", "circle", "missing"])
        kinds.append(kind)
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(one.policy_file):
                os.rmdir(one.policy_file)
            else:
                os.unlink(one.policy_file)
        if kind in ("good", "empty", "cut"):
            put(one, {"good": ALL.replace("fixed-window 5", f"fixed-window {5 + 4 * (turn % 2)}"), "empty": "",
                      "cut": ALL[:dice.randrange(ALL.index("- {name: a"))]}[kind])
        elif kind != "missing":
            instead(one.policy_file, kind)
        way = next(ways)
        if way == "signal":
            one.process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        elif way == "http":
            with one.http() as http:
                status = http.ask("POST", "/v1/reload", b"", {"Authorization": "Bearer " + TOKEN})[0]
            assert (status == 200) == (kind == "good"), (kind, status)
        else:
            with one.resp() as client, contextlib.suppress(RespError):
                client.call("AUTH", "boss", TOKEN)
                assert client.call("SLUICE.RELOAD") == b"OK" and kind == "good"
    wait_until(lambda: failures or asked[0] > 100 and asked[1] > 20, "nobody asks")
    over.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    print(f"{count} reloads ({', '.join(f'{kinds.count(k)} {k}' for k in sorted(set(kinds)))}): {asked[0]} requests, "
          f"{asked[1]} looks at /healthz, {len(failures)} failures")
    assert not failures
    with one.resp() as client:
        assert client.call("SLUICE.ADMIT", 1, "user", "used-up")[0] == 0
