"""Stores in files and in shared memory: counters outlive the server, several processes share them, and the tools work
beside it. Instants are compared with the monotonic clock around each call, never waited for."""

import json
import mmap
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from harness import DEADLINE_S, RespError, still_serves, wait_until

# One of each algorithm, and the cost that uses it up for long.
LIMITS = [
    ("fixed-window 3/3660d", 3),
    ("sliding-window 3/30d", 3),
    ("sliding-buckets 3/2h precision 1h", 3),
    ("sliding-log 3/1h", 3),
    ("token-bucket 3/1h burst 7", 7),
    ("leaky-bucket 3/1h queue 5", 6),
]
PAGES = 49152  # where they begin in a store: docs/format.md
ALLOWED, QUOTA, REMAINING, RETRY, RESET, DELAY, INDEX = range(7)


@pytest.fixture
def sluice(sluice_bin, tmp_path):
    """Runs the program in an empty folder: sluice(args..., stdin=bytes) -> (status, stdout, stderr)."""
    def run(*args, stdin=b"", raw=False):
        done = subprocess.run([sluice_bin, *map(str, args)], input=stdin, capture_output=True, cwd=tmp_path,
                              timeout=120, check=False)
        return done.returncode, done.stdout if raw else done.stdout.decode(), done.stderr.decode()
    return run


def policy(path, more=""):
    return f"store: {{file: {path}, memory: 4MiB{more}}}\nclient-time: false\nthreads: 2\nlimits: []\n"


def kill(one):
    one.process.send_signal(signal.SIGKILL)
    assert one.process.wait(DEADLINE_S) == -signal.SIGKILL


def use_up(client):
    for i, (limit, cost) in enumerate(LIMITS):
        answer = client.call("SLUICE.CHECK", f"user:{i}", cost, limit)
        assert answer[ALLOWED] == 1 and answer[REMAINING] == 0, limit


def denials(client):
    """For each algorithm: (answer, monotonic ms before and after asking)."""
    found = []
    for i, (limit, _) in enumerate(LIMITS):
        before = time.monotonic() * 1000
        answer = client.call("SLUICE.CHECK", f"user:{i}", 1, limit)
        found.append((answer, before, time.monotonic() * 1000))
        assert answer[ALLOWED] == 0 and answer[REMAINING] == 0, limit
    return found


def waits_went_on(earlier, later):
    """Each retry_after has gone down by exactly the time that has passed; both are rounded up to a millisecond."""
    for (limit, _), (old, old_before, old_after), (new, new_before, new_after) in zip(LIMITS, earlier, later):
        for field in (RETRY, RESET):
            passed = old[field] - new[field]
            assert new_before - old_after - 2 <= passed <= new_after - old_before + 2, (limit, field, old, new)


def peeked(text):
    """Of what `sluice check` prints: (allowed, retry in ms or 0)."""
    retry = re.search(r"^retry +in .* \((\d+) ms\)$", text, re.M)
    return text.startswith("allowed"), int(retry[1]) if retry else 0


def denied_in(sluice, name):
    """The same as denials(), by the command line."""
    found = []
    for i, (limit, _) in enumerate(LIMITS):
        before = time.monotonic() * 1000
        status, out, err = sluice("check", f"user:{i}", limit, "--peek", "--store", name)
        after = time.monotonic() * 1000
        assert (status, err) == (1, ""), (limit, out, err)
        answer = [0] * 7
        answer[RETRY] = peeked(out)[1]
        answer[RESET] = int(re.search(r"^full again in .* \((\d+) ms\)$", out, re.M)[1])
        found.append((answer, before, after))
    return found


@pytest.fixture
def filled(sluice, tmp_path):
    """A store of 1 MiB in which every algorithm denies, and what it answered: (path, denials)."""
    path = tmp_path / "counters"
    assert sluice("store", "create", path, "--memory", "1MiB")[0] == 0
    for i, (limit, cost) in enumerate(LIMITS):
        assert sluice("check", f"user:{i}", limit, "--cost", cost, "--store", path)[0] == 0
    return path, denied_in(sluice, path)


# ---- a server and its file -------------------------------------------------------------------------------------------

def test_denied_before_a_kill_is_denied_after_it(server, tmp_path):
    path = tmp_path / "counters"
    one = server(policy(path))
    one.stderr.wait_for(lambda line: line == f"sluice: store {path}: created, 4 MiB")
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_size == 4 << 20
    with one.resp() as client:
        use_up(client)
        earlier = denials(client)
    kill(one)
    two = server(policy(path))
    two.stderr.wait_for(lambda line: line == f"sluice: store {path}: kept {len(LIMITS)} counters")
    with two.resp() as client:
        later = denials(client)
        assert client.call("SLUICE.CHECK", "another", 1, "sliding-log 3/1h")[:3] == [1, 3, 2]
    waits_went_on(earlier, later)


def test_a_file_copied_while_stopped(server, tmp_path):
    path, copy = tmp_path / "counters", tmp_path / "copy"
    one = server(policy(path))
    with one.resp() as client:
        use_up(client)
        earlier = denials(client)
    one.stop()
    shutil.copy(path, copy)
    path.unlink()
    two = server(policy(copy))
    with two.resp() as client:
        waits_went_on(earlier, denials(client))


def test_two_servers_share_a_file(server, tmp_path):
    path = tmp_path / "counters"
    one, two = server(policy(path)), server(policy(path))
    two.stderr.wait_for(lambda line: line.endswith(": kept 0 counters, shared with 1 other process"))
    with one.resp() as a, two.resp() as b:
        for limit, cost in LIMITS:
            answers = [(a, b)[n % 2].call("SLUICE.CHECK", "both", 1, limit) for n in range(cost + 2)]
            assert [answer[ALLOWED] for answer in answers] == [1] * cost + [0, 0], limit
            assert [answer[REMAINING] for answer in answers] == [*range(cost - 1, -1, -1), 0, 0], limit
        kill(one)
        assert b.call("SLUICE.CHECK", "both", 1, "sliding-log 3/1h")[ALLOWED] == 0
    still_serves(two)


def test_shared_memory(server, sluice):
    name = f"e2e-{os.getpid()}"
    path = f"/dev/shm/sluice-{name}"
    said = f"store: {{shared: {name}, memory: 2MiB, blocks: 40%}}\n"
    try:
        one = server(said)
        with one.resp() as client:
            use_up(client)
            earlier = denials(client)
        waits_went_on(earlier, denied_in(sluice, f"shared:{name}"))
        kill(one)
        assert sluice("store", "create", f"shared:{name}", "--memory", "2MiB")[0] == 2
        two = server(said)
        with two.resp() as client:
            waits_went_on(earlier, denials(client))
            assert b"maxmemory:2097152\r\n" in client.call("INFO", "memory")
    finally:
        os.unlink(path)


def test_a_changed_store_needs_a_restart(server, tmp_path):
    path = tmp_path / "counters"
    one = server(policy(path))
    with one.resp() as client:
        assert client.call("SLUICE.CHECK", "k", 3, "sliding-log 3/1h")[ALLOWED] == 1
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write("store: {memory: 4MiB}\nlimits: [{name: a, key: user, limit: 5/1h}]\n")
        one.process.send_signal(signal.SIGHUP)
        one.stderr.wait_for(lambda line: line.startswith("sluice: loaded "))
        assert "needs a restart: keeping the current store" in one.stderr.text()
        assert client.call("SLUICE.CHECK", "k", 1, "sliding-log 3/1h")[ALLOWED] == 0
        assert client.call("SLUICE.ADMIT", 1, "user", "u")[:3] == [1, 5, 4]


def resident(one):
    with open(f"/proc/{one.process.pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_private_memory_is_brought_in_ahead(server):
    """What was counted before and meanwhile stays as it is; and a server may end amid of it."""
    used = server(policy="store: {memory: 96MiB, pretouch: false}\n")
    ahead, ended = (server(policy="store: {memory: 96MiB}\n") for _ in range(2))
    with ahead.resp() as r:
        count = 0

        def is_here():
            nonlocal count
            for _ in range(100):
                count += 1
                assert r.call("SLUICE.CHECK", f"user:{count}", "1", "5/1h")[REMAINING] == 4
            return resident(ahead) >= 96 << 20
        wait_until(is_here, "the store's memory is not there", 60)
        assert all(r.call("SLUICE.CHECK", f"user:{i}", "0", "5/1h")[REMAINING] == 4 for i in range(1, count + 1))
    assert resident(used) < 64 << 20
    wait_until(lambda: resident(ended) > 20 << 20, "nothing is brought in", 60)
    ended.stop()


def test_memory_left_out(server, sluice, tmp_path):
    """A file that exists keeps its size; one that is made gets what private memory gets."""
    path = tmp_path / "counters"
    assert sluice("store", "create", path, "--memory", "3MiB") == (0, f"{path}: created, 3 MiB\n", "")
    one = server(f"store: {{file: {path}, blocks: 40%}}\n")
    assert "keeps 50% for blocks, not 40%" in one.stderr.text()
    with one.resp() as client:
        assert client.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"3145728"]


@pytest.mark.parametrize("prepare, says", [
    (lambda path: path.write_bytes(os.urandom(1 << 20)), "not a Sluice store"),
    (lambda path: path.write_text("precious"), "too short"),
    (lambda path: path.mkdir(), "folder"),
    (lambda path: path.symlink_to("/etc/passwd"), "symbolic link"),
    (lambda path: os.mkfifo(path), "regular file"),
])
def test_what_is_no_store_is_refused_and_left_alone(sluice, tmp_path, prepare, says):
    path = tmp_path / "counters"
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    (tmp_path / "policy.yaml").write_text(policy(path))
    for command in (["serve", "-c", "policy.yaml", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                    ["check", "k", "1/1h", "--store", path], ["reset", "k", "1/1h", "--store", path],
                    ["inspect", "--store", path], ["store", "create", path, "--memory", "1MiB"],
                    ["store", "resize", path, "--memory", "1MiB"], ["store", "dump", path]):
        status, out, err = sluice(*command)
        assert (status, out) == (2, ""), command
        assert err.count("\n") == 1 and says in err, (command, err)
    assert before is None or path.read_bytes() == before


def test_another_size_is_refused(sluice, tmp_path):
    path = tmp_path / "counters"
    assert sluice("store", "create", path, "--memory", "2MiB")[0] == 0
    (tmp_path / "policy.yaml").write_text(policy(path))
    status, _, err = sluice("serve", "-c", "policy.yaml", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0")
    assert status == 2 and err.count("\n") == 1 and "2097152 bytes (2 MiB), not 4194304" in err
    os.truncate(path, 1 << 20)
    status, _, err = sluice("check", "k", "1/1h", "--store", path)
    assert status == 2 and "truncated" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_no_permission(sluice_bin):
    with tempfile.TemporaryDirectory(prefix="sluice-e2e-") as folder:
        os.chmod(folder, 0o755)
        program, path = os.path.join(folder, "sluice"), os.path.join(folder, "counters")
        shutil.copy(sluice_bin, program)
        assert subprocess.run([program, "store", "create", path, "--memory", "1MiB"], stdout=subprocess.DEVNULL,
                              timeout=DEADLINE_S, check=False).returncode == 0
        for command in (["check", "k", "1/1h", "--store", path], ["inspect", "--store", path],
                        ["store", "create", path + "2", "--memory", "1MiB"]):
            done = subprocess.run([program, *command], capture_output=True, timeout=DEADLINE_S, check=False,
                                  preexec_fn=lambda: os.setuid(65534))
            assert done.returncode == 2 and b"ermission" in done.stderr and not done.stdout, done


# ---- tools beside a server -------------------------------------------------------------------------------------------

@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_server_warns_of_who_can_write_its_store(server, tmp_path):
    path = tmp_path / "counters"

    def said():
        one = server(policy(path))
        one.stderr.wait_for(lambda line: line == "sluice: ready")
        one.stop()
        return [line for line in one.stderr.lines if "store" in line and "user" in line]

    assert not said() and not said()  # it was made, and kept
    path.chmod(0o622)
    assert said() == [f"sluice: warning: store {path} can be written by every user of this host: chmod o-w"]
    path.chmod(0o660)
    os.chown(path, 54321, -1)
    assert said() == [f"sluice: warning: store {path} belongs to user 54321, who can change its counters and "
                      "end this server"]


def test_check_and_reset_beside_a_server(server, sluice, tmp_path):
    path = tmp_path / "counters"
    one = server(policy(path))
    with one.resp() as client:
        use_up(client)
        earlier = denials(client)
        waits_went_on(earlier, denied_in(sluice, path))
        for i, (limit, cost) in enumerate(LIMITS):
            status, out, err = sluice("check", f"tool:{i}", limit, "--cost", cost, "--store", path)
            assert (status, err) == (0, "") and f"remaining  0 of {cost}" in out
            assert out.startswith(f"allowed    tool:{i} under {limit}")
            assert client.call("SLUICE.CHECK", f"tool:{i}", 1, limit)[ALLOWED] == 0
        over_resp = sluice("check", "user:3", LIMITS[3][0], "--server", f"127.0.0.1:{one.resp_port}")
        in_file = sluice("check", "user:3", LIMITS[3][0], "--store", path)
        assert over_resp[0] == in_file[0] == 1
        assert re.sub(r" in .*", "", over_resp[1]) == re.sub(r" in .*", "", in_file[1])
        words = ["user:0", LIMITS[0][0], "KEY", "user:3", LIMITS[3][0], "KEY", "nobody", "1/1h"]
        assert sluice("reset", *words, "--store", path) == (0, "forgot 2 counters\n", "")
        assert sluice("reset", *words, "--server", f"127.0.0.1:{one.resp_port}") == (0, "forgot 0 counters\n", "")
        assert client.call("SLUICE.CHECK", "user:3", 1, LIMITS[3][0])[:3] == [1, 3, 2]
        assert sluice("reset", "user:3", LIMITS[3][0], "--server", f"127.0.0.1:{one.resp_port}")[1] == \
            "forgot 1 counter\n"
        assert peeked(sluice("check", "user:3", LIMITS[3][0], "--peek", "--store", path)[1]) == (True, 0)
    still_serves(one)


def test_inspect_beside_a_server(server, sluice, tmp_path):
    path = tmp_path / "counters"
    one = server(policy(path))
    with one.resp() as client:
        use_up(client)
        status, out, err = sluice("inspect", "--store", path, "--json")
        found = json.loads(out)
        assert (status, err) == (0, "")
        assert found["memory_bytes"] == 4 << 20 and found["processes"] == 2 and found["counters"] == 6
        assert found["slots_used"] == 6 and found["slots_with_block"] == 2 and found["uses"] == [0] * 7 + [6]
        assert sum(found["block_sizes"].values()) == 2 and found["evicted"] == found["dropped"] == 0
        assert 0 <= found["now_ns"] - found["youngest_ns"] <= found["now_ns"] - found["oldest_ns"] < 60 * 10**9
        status, out, err = sluice("inspect", "--store", path)
        assert (status, err) == (0, "")
        for line in (rf"store +{path}", r"memory +4 MiB, 50% of it for blocks", r"slots +6 of \d+ in use, \d+ free",
                     r"processes +2, .*", r"all +6", r"last charges +youngest .* ago, oldest .* ago"):
            assert re.search(rf"^{line}$", out, re.M), (line, out)
        status, out, err = sluice("inspect", "--store", path, "user:3", LIMITS[3][0], "KEY", "x", "9/1h", "--json")
        denied, unused = json.loads(out)
        assert (status, err) == (0, "")
        assert denied["key"] == "user:3" and denied["limit"] == "sliding-log 3/1h" and not denied["allowed"]
        assert 3590000 < denied["retry_after_ms"] == denied["next_after_ms"] <= 3600000
        assert unused["key"] == "x" and (unused["remaining"], unused["quota"], unused["reset_after_ms"]) == (9, 9, 0)
        status, out, _ = sluice("inspect", "--store", path, "user:3", LIMITS[3][0])
        assert status == 0 and out.startswith("denied     user:3 by sliding-log 3/1h\n") and "\nnext unit  in " in out
        status, out, err = sluice("inspect", "--store", path, "--verify")
        assert (status, out) == (2, "")
        assert f"1 other process has it open (process {one.process.pid}): stop it to verify it" in err
        status, out, err = sluice("store", "resize", path, "--memory", "8MiB")
        assert (status, out) == (2, "") and f"(process {one.process.pid}): stop it to resize it" in err
    kill(one)
    assert sluice("inspect", "--store", path, "--verify") == (0, f"{path}: whole\n", "")
    assert json.loads(sluice("inspect", "--store", path, "--json")[1])["processes"] == 1


def tear(sluice, path, count):
    """Lets the first `count` counters of a store say that they were charged in a far future."""
    pages = json.loads(sluice("inspect", "--store", path, "--json")[1])["slots"] // 160
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        for bucket in range(24576, 24576 + 4096 * pages, 128):
            for slot in range(5):
                if count and any(data[bucket + 8 + 8 * slot:bucket + 16 + 8 * slot]):
                    data[bucket + 48 + 16 * slot:bucket + 56 + 16 * slot] = b"\xff" * 8
                    count -= 1
        f.seek(0)
        f.write(data)
    assert count == 0


def test_torn_counters_are_dropped_and_told_once(server, sluice, filled):
    path, _ = filled
    tear(sluice, path, 2)
    status, out, err = sluice("inspect", "--store", path, "--verify")
    assert (status, err) == (1, "")
    assert out == f"{path}: 2 counters were torn and are dropped now; what is left is whole\n"
    assert sluice("inspect", "--store", path, "--verify") == (0, f"{path}: whole\n", "")
    tear(sluice, path, 1)
    one = server(f"store: {{file: {path}}}\n")
    one.stderr.wait_for(lambda line: line == f"sluice: store {path}: kept 3 counters, dropped 1 as torn")
    found = json.loads(sluice("inspect", "--store", path, "--json")[1])
    assert (found["counters"], found["dropped"]) == (3, 3)
    with one.resp() as client:
        answers = [client.call("SLUICE.PEEK", f"user:{i}", 1, limit)[ALLOWED] for i, (limit, _) in enumerate(LIMITS)]
    assert sorted(answers) == [0, 0, 0, 1, 1, 1]


# ---- create, resize, dump, load --------------------------------------------------------------------------------------

def test_create_does_not_replace(sluice, filled):
    path, earlier = filled
    status, out, err = sluice("store", "create", path, "--memory", "1MiB")
    assert (status, out) == (2, "") and "there is a store already" in err
    waits_went_on(earlier, denied_in(sluice, path))


@pytest.mark.parametrize("share", [1, 91, 98])
def test_a_share_for_blocks_as_the_help_says_it(sluice, tmp_path, share):
    path = tmp_path / "counters"
    assert sluice("store", "create", path, "--memory", "1MiB", "--blocks", f"{share}%")[0] == 0
    assert f"1 MiB, {share}% of it for blocks" in sluice("inspect", "--store", path)[1]
    assert sluice("store", "resize", path, "--memory", "2MiB", "--blocks", f"{share}%")[0] == 0


def test_resize_keeps_counters(sluice, filled):
    path, earlier = filled
    os.chmod(path, 0o640)
    for size, bytes_now in (("64MiB", 64 << 20), ("1MiB", 1 << 20), ("300MiB", 300 << 20), ("5000KiB", 5000 << 10)):
        status, out, err = sluice("store", "resize", path, "--memory", size)
        assert (status, err) == (0, "") and out.endswith(f"kept {len(LIMITS)} counters\n")
        assert path.stat().st_size == bytes_now and path.stat().st_mode & 0o777 == 0o640
        assert os.listdir(path.parent) == [path.name]
        waits_went_on(earlier, denied_in(sluice, path))
    assert sluice("store", "resize", path, "--blocks", "10%")[0] == 0
    waits_went_on(earlier, denied_in(sluice, path))
    assert json.loads(sluice("inspect", "--store", path, "--json")[1])["blocks_percent"] == 10
    assert sluice("inspect", "--store", path, "--verify")[0] == 0


def test_resize_refuses_what_does_not_fit(server, sluice, tmp_path):
    path = tmp_path / "counters"
    one = server(policy(path))
    with one.resp() as client:
        assert client.call("SLUICE.CHECK", "first", 3, "sliding-log 3/1d")[ALLOWED] == 1
        for start in range(0, 40000, 1000):
            call = [f"*4\r\n$12\r\nSLUICE.CHECK\r\n$5\r\n{n:05}\r\n$1\r\n1\r\n$4\r\n9/1d\r\n" for n in
                    range(start, start + 1000)]
            client.send("".join(call).encode())
            for _ in call:
                assert not isinstance(client.read(), RespError)
    one.stop()
    before = path.read_bytes()
    status, out, err = sluice("store", "resize", path, "--memory", "1MiB")
    assert (status, out) == (2, "")
    lost = int(re.search(r": (\d+) of 40001 counters find no room, and it was left as it is", err)[1])
    assert lost > 20000 and os.listdir(tmp_path) == ["counters"]
    same = path.read_bytes()
    assert same[24576:] == before[24576:]  # behind the header and who has it open
    status, out, err = sluice("store", "resize", path, "--memory", "1MiB", "--force")
    assert (status, err) == (0, "")
    kept, gone = map(int, re.search(r"kept (\d+) counters, (\d+) found no room$", out).groups())
    assert kept + gone == 40001 and gone == lost
    assert sluice("inspect", "--store", path, "--verify")[0] == 0
    assert json.loads(sluice("inspect", "--store", path, "--json")[1])["counters"] == kept


def test_dump_beside_a_server_and_load(server, sluice, tmp_path):
    path = tmp_path / "counters"
    one = server(policy(path))
    with one.resp() as client:
        use_up(client)
        earlier = denials(client)
    status, dump, err = sluice("store", "dump", path, raw=True)
    assert status == 0 and err == f"sluice store: dumped {len(LIMITS)} counters\n"
    assert sluice("store", "dump", path, "-o", "file")[0] == 0
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600 and len((tmp_path / "file").read_bytes()) == len(dump)
    kill(one)
    path.unlink()
    for more in ([], ["--memory", "33MiB", "--blocks", "20"], ["--memory", "1MiB"]):
        status, out, err = sluice("store", "load", path, *more, stdin=dump)
        assert (status, err) == (0, "") and out == f"{path}: kept {len(LIMITS)} counters\n"
        assert path.stat().st_size == {0: 4 << 20, 2: 1 << 20, 4: 33 << 20}[len(more)]
        waits_went_on(earlier, denied_in(sluice, path))
        assert sluice("inspect", "--store", path, "--verify")[0] == 0
        status, out, err = sluice("store", "load", path, stdin=dump)
        assert (status, out) == (2, "") and "it exists already" in err
        os.unlink(path)
    two = server(policy(path))
    assert sluice("store", "dump", path, "-o", path)[0] == 2
    still_serves(two)


def test_a_dump_leaves_out_what_is_torn(server, sluice, tmp_path):
    """A counter that was damaged beside the server costs nobody the dump."""
    path = tmp_path / "counters"
    one = server(policy(path))
    with one.resp() as client:
        use_up(client)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as store:
        end = int.from_bytes(store[48:56], "little")
        slots = [(bucket, i) for bucket in range(PAGES, end, 128) for i in range(5)
                 if any(store[bucket + 8 + 8 * i:bucket + 16 + 8 * i])]
        assert len(slots) == len(LIMITS)
        (late, at), (odd, which), *_ = slots
        store[late + 48 + 16 * at:late + 56 + 16 * at] = b"\xff" * 7 + b"\x7f"  # charged in 2262
        store[odd + 8 + 8 * which] = 200  # a lifetime that no counter has
    status, dump, err = sluice("store", "dump", path, raw=True)
    assert (status, err) == (0, f"sluice store: dumped {len(LIMITS) - 2} counters, left out 2 as torn\n")
    kill(one)
    path.unlink()
    status, out, err = sluice("store", "load", path, stdin=dump)
    assert (status, err) == (0, "") and out == f"{path}: kept {len(LIMITS) - 2} counters\n"
    assert sluice("inspect", "--store", path, "--verify")[0] == 0


def test_dumps_under_traffic_are_whole(server, sluice, tmp_path):
    """Counters come, change and grow while they are dumped; each dump loads, and holds what was denied before it."""
    path = tmp_path / "counters"
    one = server(policy(path))
    over, asked = threading.Event(), []

    def ask():
        with one.resp() as client:
            while not over.is_set():
                n = len(asked)
                asked.append(client.call("SLUICE.CHECK", f"key:{n % 5000}", 1, LIMITS[n % len(LIMITS)][0],
                                         "KEY", "all", "sliding-log 1M/1d"))

    with one.resp() as client:
        use_up(client)
        earlier = denials(client)
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        for turn in range(5):
            wait_until(lambda n=turn: len(asked) > 30 * n, "nobody asks any more")
            before = len(asked)
            status, dump, err = sluice("store", "dump", path, raw=True)
            assert status == 0, err
            assert sluice("store", "load", "copy", stdin=dump)[0] == 0
            assert sluice("inspect", "--store", "copy", "--verify") == (0, "copy: whole\n", "")
            waits_went_on(earlier, denied_in(sluice, "copy"))
            out = sluice("inspect", "--store", "copy", "all", "sliding-log 1M/1d", "--json")[1]
            allowed = sum(answer[ALLOWED] for answer in asked[:before])
            assert 1000000 - json.loads(out)[0]["remaining"] >= allowed
            os.unlink(tmp_path / "copy")
    finally:
        over.set()
        asker.join(DEADLINE_S)
    assert len(asked) > 100


def test_a_dump_goes_into_a_pipe_and_a_device(sluice, filled):
    path, _ = filled
    assert sluice("store", "dump", path, "-o", "/dev/null")[0] == 0
    assert not os.path.isfile("/dev/null")
    status, out, err = sluice("store", "dump", path, "-o", "/dev/full")
    assert (status, out) == (2, "") and "No space left" in err
    status, _, err = sluice("store", "dump", path, "-o", path.parent / "no" / "where")
    assert status == 2 and "No such file" in err


def test_a_dump_above_the_limit_of_files_is_told(sluice_bin, filled):
    path, _ = filled
    output = path.parent / "dump"
    output.write_bytes(b"before")
    names = sorted(os.listdir(path.parent))
    done = subprocess.run([sluice_bin, "store", "dump", path, "-o", output], capture_output=True, timeout=DEADLINE_S,
                          check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert (done.returncode, done.stdout) == (2, b"") and b"File too large" in done.stderr
    assert output.read_bytes() == b"before" and sorted(os.listdir(path.parent)) == names


def test_a_dump_to_standard_output_replaces_no_name(sluice_bin, filled):
    """`-o /dev/stdout > FILE`, or into a socket. As root the machine's own /dev/stdout would become a file: so another
    user does it."""
    other = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        store, out = os.path.join(folder, "store"), os.path.join(folder, "out")
        shutil.copy(filled[0], store)
        os.chmod(store, 0o666)
        os.chmod(folder, 0o777)  # for another user

        def dump(stdout, *more):
            return subprocess.run([sluice_bin, "store", "dump", store, *more], stdout=stdout, stderr=subprocess.PIPE,
                                  timeout=DEADLINE_S, check=False, cwd="/", **other)

        with open(out, "wb") as file:
            file.write(b"before")
            file.flush()
            done = dump(file, "-o", "/dev/stdout")
        assert (done.returncode, done.stderr) == (0, f"sluice store: dumped {len(LIMITS)} counters\n".encode())
        with open(out, "rb") as file:
            assert file.read(6) == b"before"
            dumped = file.read()
        loaded = subprocess.run([sluice_bin, "store", "load", out + ".store"], input=dumped, stdout=subprocess.PIPE,
                                timeout=DEADLINE_S, check=False)
        assert loaded.returncode == 0 and f"kept {len(LIMITS)} counters".encode() in loaded.stdout
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert dump(theirs, "-o", "/dev/fd/1").returncode == 0
            assert len(ours.recv(2 * len(dumped))) == len(dumped)
        with open(store, "rb") as file:
            before = file.read()
        for own in range(3, 10):  # of the program itself: one of them is the store
            done = dump(subprocess.PIPE, "-o", f"/dev/fd/{own}")
            assert done.returncode == 2 and b"Bad file descriptor" in done.stderr
        with open(store, "rb") as file:
            assert file.read()[PAGES:] == before[PAGES:]


def test_a_damaged_dump_is_refused_wherever_it_is_damaged(sluice, filled, tmp_path):
    path, _ = filled
    dump = bytearray(sluice("store", "dump", path, raw=True)[1])
    (tmp_path / "counters").rename(tmp_path / "old")

    def refused(data, what):
        status, out, err = sluice("store", "load", path, stdin=bytes(data))
        assert (status, out) == (2, ""), what
        assert re.fullmatch(r"sluice store: the dump, byte \d+: .*\n", err), (what, err)
        assert os.listdir(tmp_path) == ["old"], what
        return int(re.search(r"byte (\d+):", err)[1])

    for at in range(len(dump)):
        dump[at] ^= 1 << at % 8
        assert refused(dump, f"byte {at} changed") <= at
        dump[at] ^= 1 << at % 8
    for length in range(0, len(dump), 5):
        assert refused(dump[:length], f"cut to {length} bytes") <= length
    assert refused(dump + b"\n", "one byte more") == len(dump)
    assert sluice("store", "load", path, stdin=bytes(dump))[0] == 0


@pytest.mark.parametrize("data, says", [
    (b"", "byte 0: what begins here is cut short or damaged: the dump ends at byte 0"),
    (b"short", "byte 0: what begins here is cut short or damaged: the dump ends at byte 5"),
    (b"#!/bin/sh\necho this is no dump\n" * 20, "byte 0: this is not a dump of a store"),
    (bytes(4096), "byte 0: this is not a dump of a store"),
])
def test_what_is_no_dump_is_refused(sluice, tmp_path, data, says):
    status, out, err = sluice("store", "load", "counters", stdin=data)
    assert (status, out) == (2, "") and says in err and os.listdir(tmp_path) == []


# A dump that lies with right checks: who made it knew the format, so numbers must not be believed for their checks.

MASK = (1 << 64) - 1


def rotate(x, bits):
    return (x << bits | x >> (64 - bits)) & MASK


def siphash13(key, message):
    """SipHash-1-3 of bytes, from its paper."""
    a, b, c, d = (key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                  key[1] ^ 0x7465646279746573)

    def turn(a, b, c, d):
        a, c = (a + b) & MASK, (c + d) & MASK
        b, d, a = rotate(b, 13) ^ a, rotate(d, 16) ^ c, rotate(a, 32)
        c, a = (c + b) & MASK, (a + d) & MASK
        return a, rotate(b, 17) ^ c, rotate(c, 32), rotate(d, 21) ^ a

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        d ^= word
        a, b, c, d = turn(a, b, c, d)
        a ^= word
    c ^= 255
    for _ in range(3):
        a, b, c, d = turn(a, b, c, d)
    return a ^ b ^ c ^ d


def words_of(*numbers):
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def forge(dump, frames, change=None):
    """A dump with the header of another, changed, over other frames: [(count, body, said bytes)]."""
    magic = int.from_bytes(dump[:8], "little")
    head = [int.from_bytes(dump[at:at + 8], "little") for at in range(0, HEADER - 8, 8)]
    for at, value in (change or {}).items():
        head[at] = value
    check = siphash13((0, magic), words_of(0, 0) + words_of(*head))
    out = words_of(*head, check)
    for count, body, said in frames:
        check = siphash13((check, magic), words_of(said, count) + body)
        out += words_of(said, count, check) + body
    return out


HEADER = 8 * 23


def record(entry_hash=77 << 5, tag=1, first=5 << 19, second=9, block=b"", said=None):
    return words_of(entry_hash, tag, first, second, len(block) if said is None else said) + block


def end(total, latest=MASK):
    return (0, words_of(total, latest), 16)


def test_a_dump_that_lies_is_refused(sluice, filled, tmp_path):
    path, earlier = filled
    dump = sluice("store", "dump", path, raw=True)[1]
    path.rename(tmp_path / "old")
    body = dump[HEADER + 24:-40]
    count = len(LIMITS)
    assert forge(dump, [(count, body, len(body)), (0, dump[-16:], 16)]) == dump

    def refused(data, says):
        status, out, err = sluice("store", "load", path, stdin=data)
        assert (status, out) == (2, "") and says in err, (says, err)
        assert os.listdir(tmp_path) == ["old"], says

    good = record()
    refused(forge(dump, [end(1)]), "1 counters were dumped, and 0 are here")
    refused(forge(dump, [(1, good, 40), end(1, 4 << 19)]), "charged later than the dump was taken")
    refused(forge(dump, [(2, good, 40), end(2)]), "promises more counters than it has")
    refused(forge(dump, [(1, good + good, 80), end(1)]), "a frame has more than its counters")
    refused(forge(dump, [(2, good + good, 80), end(2)]), "or one that was there before")
    refused(forge(dump, [(1, record(tag=255), 40), end(1)]), "no counter")
    refused(forge(dump, [(1, record(block=bytes(8)), 48), end(1)]), "no counter")
    refused(forge(dump, [(1, record(said=1 << 40), 40), end(1)]), "does not fit its frame")
    refused(forge(dump, [(1, record(said=MASK - 3), 40), end(1)]), "does not fit its frame")
    refused(forge(dump, [(MASK, good, 40), end(1)]), "promises more counters than it has")
    refused(forge(dump, [(1, good, 1 << 38)]), "cut short or damaged: the dump ends at byte")
    refused(forge(dump, [(1, good, 1 << 39)]), "no frame of counters begins here")
    refused(forge(dump, [(0, good, 40)]), "no frame of counters begins here")
    refused(forge(dump, [], {1: 2}), "a dump of format 2")
    refused(forge(dump, [], {2: 2}), "another byte order")
    refused(forge(dump, [], {3: 9}), "store version 9")
    refused(forge(dump, [], {4: 1 << 39}), "no store has that size")
    refused(forge(dump, [], {4: 0}), "no store has that size")
    refused(forge(dump, [], {5: 99}), "no store has that size")
    refused(forge(dump, [], {6: 16}), "no store keeps its hashes so")
    assert sluice("store", "load", path, stdin=dump)[0] == 0
    waits_went_on(earlier, denied_in(sluice, path))


def test_states_and_blocks_of_nonsense_load_and_are_survived(sluice, filled, tmp_path):
    """Whatever a counter says of itself, deciding with it ends, and within its quota."""
    path, _ = filled
    dump = bytearray(sluice("store", "dump", path, raw=True)[1])
    body = bytearray(dump[HEADER + 24:-40])
    os.unlink(path)
    for seed in range(12):
        noisy = bytearray(body)
        at = 0
        while at < len(noisy):
            block = int.from_bytes(noisy[at + 32:at + 40], "little")
            for i in [*range(at + 16, at + 32), *range(at + 40, at + 40 + block)]:
                noisy[i] = (noisy[i] * 31 + seed * 97 + i * 7) & 255 if (i + seed) % 3 else noisy[i]
            at += 40 + (block + 7) // 8 * 8
        data = forge(dump, [(len(LIMITS), bytes(noisy), len(noisy)), end(len(LIMITS))])
        status, _, err = sluice("store", "load", path, stdin=data)
        assert (status, err) == (0, "")
        assert sluice("inspect", "--store", path, "--verify")[0] in (0, 1)
        for i, (limit, cost) in enumerate(LIMITS):
            status, out, err = sluice("check", f"user:{i}", limit, "--store", path)
            assert status in (0, 1) and err == "", (limit, seed, status, err)
            assert int(re.search(r"^remaining +(\d+) of", out, re.M)[1]) < cost or status == 1, (limit, seed, out)
        os.unlink(path)
