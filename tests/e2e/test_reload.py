"""What the server refuses at its start, and reloading: asked for by a signal, over HTTP or RESP, or by a file that
changes; under traffic, with counters kept; a bad policy left alone, and said to be so."""

import os
import re
import signal
import subprocess
import threading
import time

import pytest

from harness import DEADLINE_S, RespError, still_serves, wait_until
from ports import free_port
from traffic import Traffic, total

FIVE = "limits:\n  - {name: a, key: user, limit: fixed-window 5/3660d}\n"
NINE = "limits:\n  - {name: a, key: user, limit: fixed-window 9/3660d}\n"


def rewrite(one, policy):
    with open(one.policy_file, "w", encoding="utf-8") as f:
        f.write(policy)
    one.process.send_signal(signal.SIGHUP)


def admit(one):
    with one.resp() as client:
        return client.call("SLUICE.ADMIT", "1", "user", "bob")


@pytest.mark.parametrize("threads", ["1", "3"])
def test_sighup_takes_over_and_counters_stay(server, threads):
    one = server(FIVE, ["--threads", threads])
    assert admit(one)[1:3] == [5, 4]
    rewrite(one, NINE)
    one.stderr.wait_for(lambda line: line.startswith("sluice: loaded "))
    for left in (7, 6, 5, 4):  # over new connections, so that every worker is asked
        assert admit(one)[1:3] == [9, left]


@pytest.mark.parametrize(
    "bad", ["limits: 5\n", "limits: [\n", "store: {file: /x, shared: x}\n"]
)
def test_a_bad_policy_leaves_the_old_one(server, bad):
    one = server(FIVE)
    assert admit(one)[1:3] == [5, 4]
    rewrite(one, bad)
    one.stderr.wait_for(lambda line: line.endswith("was rejected: keeping the current policy"))
    assert admit(one)[1:3] == [5, 3]


def said(one, text):
    return sum(text in line for line in one.stderr.text().split("\n"))


def write(one, policy):
    with open(one.policy_file, "w", encoding="utf-8") as file:
        file.write(policy)


def test_a_limit_whose_counters_begin_anew_is_told(server):
    """Another algorithm or window under the same name has other counters; another quota has not, nor has a limit with
    an override that keeps them."""
    def limits(*of):
        return "limits:\n" + "".join(f"  - {{name: n{i}, key: user, limit: {limit}}}\n" for i, limit in enumerate(of))

    def told(one, policy):
        write(one, policy)
        with one.http() as http:
            return [line for line in http.post("/v1/reload", b"")[2]["messages"] if not line.startswith("loaded ")]
    one = server(limits("5/1m", "token-bucket 5/1s", "unlimited", "10/day at UTC"))
    assert told(one, limits("9/1m", "token-bucket 9/1s burst 7", "5/1s", "11/day at UTC")) == []
    assert told(one, limits("sliding-log 9/1m", "token-bucket 9/1s burst 7", "5/2s", "11/day at Europe/Berlin")) == [
        "limit n0: its counters begin anew: it is sliding-log 9/1m now, and was sliding-window 9/1m",
        "limit n2: its counters begin anew: it is sliding-window 5/2s now, and was sliding-window 5/1s",
        "limit n3: its counters begin anew: it is fixed-window 11/day at Europe/Berlin now, "
        "and was fixed-window 11/day at UTC",
    ]
    with_override = "limits:\n  - {name: n0, key: user, limit: 7/1m, overrides: [{when: {user: a}, limit: %s}]}\n"
    assert told(one, with_override % "sliding-log 2/1m") == []
    assert told(one, with_override % "sliding-log 2/1h") == []
    assert told(one, limits("sliding-log 2/1h")) == [
        "limit n0: its counters begin anew: it is sliding-log 2/1h now, and was sliding-window 7/1m"]
    assert told(one, limits(*["unlimited"] * 9)) == []
    assert told(one, limits(*["5/1m"] * 9)) == []
    said = told(one, limits(*["6/1h"] * 9))
    assert len(said) == 6 and said[5] == "4 limits more begin their counters anew"


def test_reload_over_http(server):
    one = server(FIVE)
    assert admit(one)[1:3] == [5, 4]
    with one.http() as http:
        write(one, NINE)
        status, _, body = http.post("/v1/reload", b"")
        assert (status, body["reloaded"], body["limits"]) == (200, True, 1)
        assert body["messages"] == ["loaded " + one.policy_file]
        assert body["warnings"][0]["line"] == 2  # 'user' may be absent
        wait_until(lambda: admit(one)[1] == 9, "the new quota")
        write(one, "limits:\n  - {name: a, limit: 0}\nfoo: 1\n")
        status, headers, body = http.post("/v1/reload", b"")
        assert status == 422 and ("Content-Type", "application/problem+json") in headers
        assert "errors; keeping the current policy" in body["detail"] and body["limits"] == 1
        assert body["title"] == "Unprocessable Content"
        assert [(e["line"], e["column"]) for e in body["errors"]][-1] == (3, 1) and "foo" in body["errors"][-1]["text"]
        os.unlink(one.policy_file)
        status, _, body = http.post("/v1/reload", b"")
        assert status == 409 and "No such file" in body["detail"] and body["errors"] == []
        assert body["title"] == "Conflict"
        assert admit(one)[1] == 9
        assert http.ask("GET", "/v1/reload")[0] == 405


def test_reload_over_resp(server):
    one = server(FIVE)
    with one.resp() as client:
        write(one, NINE)
        assert client.call("SLUICE.RELOAD") == b"OK"
        wait_until(lambda: client.call("SLUICE.ADMIT", "0", "user", "a")[1] == 9, "the new quota")
        write(one, "limits:\n  - {name: a, limit: 0}\nfoo: 1\n")
        with pytest.raises(RespError, match=r"^ERR keeping the current policy: line 2, .* \([2-9] errors\)$"):
            client.call("SLUICE.RELOAD")
        assert client.call("SLUICE.ADMIT", "0", "user", "a")[1] == 9
    wait_until(lambda: said(one, "was rejected: keeping the current policy") >= 1, "the log")


def test_nothing_to_reload(server):
    one = server()
    with one.resp() as client, one.http() as http:
        with pytest.raises(RespError, match="no policy file was given"):
            client.call("SLUICE.RELOAD")
        status, _, body = http.post("/v1/reload", b"")
        assert status == 409 and "no policy file" in body["detail"]


def replace(one, policy):
    """As editors do: a new file, moved over the old one."""
    with open(one.policy_file + ".new", "w", encoding="utf-8") as file:
        file.write(policy)
    os.rename(one.policy_file + ".new", one.policy_file)


def turn_link(one, policy):
    """As Kubernetes does: the policy is a link into a folder that is a link, which is turned."""
    folder = os.path.dirname(one.policy_file)
    version = len(os.listdir(folder))
    os.mkdir(f"{folder}/v{version}")
    with open(f"{folder}/v{version}/policy.yaml", "w", encoding="utf-8") as file:
        file.write(policy)
    os.symlink(f"v{version}", f"{folder}/data.new")
    os.rename(f"{folder}/data.new", f"{folder}/data")
    if not os.path.islink(one.policy_file):
        os.symlink("data/policy.yaml", one.policy_file + ".new")
        os.rename(one.policy_file + ".new", one.policy_file)


@pytest.mark.parametrize("change", [write, replace, turn_link])
def test_a_changed_file_is_followed(server, change):
    one = server(FIVE)
    for policy, quota in ((NINE, 9), (FIVE, 5)):
        change(one, policy)
        wait_until(lambda quota=quota: admit(one)[1] == quota, "the changed policy")
    wait_until(lambda: said(one, "sluice: loaded ") == 2, "the log")


def test_a_broken_file_is_told_once_and_so_is_its_end(server):
    one = server(FIVE)
    write(one, "limits: [\n")
    wait_until(lambda: said(one, "was rejected") == 1, "the refusal")
    os.utime(one.policy_file)  # touched, but no other bytes: neither told nor taken over again
    os.unlink(one.policy_file)
    wait_until(lambda: said(one, "was rejected") == 2, "the refusal of a file that is missing")
    write(one, NINE)
    wait_until(lambda: said(one, "sluice: loaded ") == 1, "the whole file")
    wait_until(lambda: admit(one)[1] == 9, "the new quota")
    os.utime(one.policy_file)
    with one.http() as http:
        figures = http.ask("GET", "/metrics")[2].decode()
    counts = dict(re.findall(r'sluice_config_reloads_total\{result="(\w+)"\} (\d+)', figures))
    assert counts == {"ok": "1", "failed": "2"}


def test_a_file_being_written_is_left_alone(server):
    """It is emptied first, and an empty file is a policy without limits: nobody may ever be let through by that."""
    one, slow = server(FIVE), 0
    with one.resp() as client:
        for policy in (NINE, FIVE):
            begun = time.monotonic()
            open(one.policy_file, "w", encoding="utf-8").close()
            while time.monotonic() < begun + 1.7:  # it is looked at every second, and again after 0.2 s
                assert client.call("SLUICE.ADMIT", "0", "user", "a")[1] in (5, 9)
            write(one, policy)
            slow += time.monotonic() > begun + 2  # then it may have been refused, as below
            wait_until(lambda quota=9 if policy == NINE else 5: admit(one)[1] == quota, "the whole policy")
    wait_until(lambda: said(one, "sluice: loaded ") == 2, "the log")
    assert said(one, "was rejected") <= slow


def test_a_file_that_stays_empty_is_told_once(server):
    one = server(FIVE)
    open(one.policy_file, "w", encoding="utf-8").close()
    wait_until(lambda: said(one, "write limits: [] if there are to be no limits") == 1, "how to mean it")
    wait_until(lambda: said(one, "was rejected") == 1, "the refusal")
    assert admit(one)[1] == 5
    os.utime(one.policy_file)
    write(one, NINE)
    wait_until(lambda: admit(one)[1] == 9, "the whole policy")
    assert said(one, "was rejected") == 1


def test_what_needs_a_restart_is_said(server):
    one = server(FIVE)
    write(one, FIVE + 'listen: {http: "127.0.0.1:1"}\nthreads: 7\nlog: {denials: /nowhere/x}\n'
               "store: {shared: other}\n")
    with one.http() as http:
        messages = http.post("/v1/reload", b"")[2]["messages"]
    assert [m.split(":")[0] for m in messages[:-1]] == ["store", "listen", "threads", "log"]
    assert all("needs a restart" in m for m in messages[:-1])


def test_users_may_not_vanish_where_others_reach(server):
    """What could not be started can't be reached by a reload either."""
    secret = "sha256:" + "0" * 64
    users = f"users:\n  - {{name: a, roles: [admin], token: '{secret}'}}\nanonymous: [check, read, admin]\n"
    listen = 'listen: {resp: ["127.0.0.1:0", "0.0.0.0:0"], http: "127.0.0.1:0"}\n'
    one = server(listen + FIVE + users, listen=())
    write(one, listen + FIVE)
    with one.http() as http:
        status, _, body = http.post("/v1/reload", b"")
    assert status == 409 and "it has no users, and other hosts can reach 0.0.0.0:" in body["detail"]
    wait_until(lambda: said(one, "has no TLS") == 1, "the log")


def test_200_reloads_under_load(server):
    """Quotas up and down, broken and missing files between, callers of every kind: no connection is dropped, every
    answer is one policy's or the other's, and every unit is counted."""
    quotas = (2000000000, 4000000000)
    policies = [f"limits:\n  - {{name: load, key: user, limit: fixed-window {q}/7d}}\n" for q in quotas]
    one = server(policies[0], ["--threads", "2"])
    with Traffic(one, "bob", quotas) as traffic, one.http() as http, one.resp() as client:
        for i in range(200):
            kind = i % 8
            if kind == 3:
                write(one, "limits: [nonsense\n")
            elif kind == 6:
                os.unlink(one.policy_file)
            else:
                write(one, policies[(i // 2 + 1) % 2])
            if kind % 2 == 0:
                told = http.post("/v1/reload", b"")
                assert told[0] == (409 if kind == 6 else 200), told
            elif kind == 3:
                with pytest.raises(RespError, match="line"):
                    client.call("SLUICE.RELOAD")
            elif kind == 5:
                before = said(one, "sluice: loaded ")
                one.process.send_signal(signal.SIGHUP)
                wait_until(lambda before=before: said(one, "sluice: loaded ") > before, "SIGHUP")
            else:
                assert client.call("SLUICE.RELOAD") == b"OK"
        write(one, policies[0])
        assert client.call("SLUICE.RELOAD") == b"OK"
        results = traffic.stop()
        wait_until(lambda: client.call("SLUICE.ADMIT", "0", "user", "bob")[1] == quotas[0], "the last policy")
        remaining = client.call("SLUICE.ADMIT", "0", "user", "bob")[2]
    assert [caller["failures"] for caller in results] == [[]] * 5
    assert all(caller["reconnects"] == 0 and caller["requests"] > 0 for caller in results)
    assert total(results, "allowed") == total(results, "requests") == quotas[0] - remaining


def test_sighup_without_a_policy_file(server):
    one = server()
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: line == "sluice: nothing to reload: no policy file was given")
    still_serves(one)


def test_reloads_under_traffic(server):
    """Policies come and go while every worker uses them; each answer is one policy's or the other's."""
    one = server(FIVE, ["--threads", "3"])
    over, wrong = threading.Event(), []

    def ask(number):
        with one.resp() as client:
            while not over.is_set():
                answer = client.call("SLUICE.ADMIT", "0", "user", f"u{number}")
                if answer[:3] not in ([1, 5, 5], [1, 9, 9]):
                    wrong.append(answer)

    askers = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for asker in askers:
        asker.start()
    for i in range(20):
        said = one.stderr.text().count("sluice: loaded ")
        rewrite(one, NINE if i % 2 == 0 else FIVE)
        one.stderr.wait_for(lambda _, said=said: one.stderr.lines and
                            sum("sluice: loaded " in line for line in one.stderr.lines) > said)
    over.set()
    for asker in askers:
        asker.join(DEADLINE_S)
    assert not wrong


@pytest.mark.parametrize("policy, words", [
    ("store: {file: /proc/version}\nlimits: []\n", "store: "),
])
def test_what_this_version_does_not_have_is_refused(sluice_bin, tmp_path, policy, words):
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    done = subprocess.run([sluice_bin, "serve", "-c", str(path), "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                          capture_output=True, timeout=DEADLINE_S, check=False)
    said = [line for line in done.stderr.decode().splitlines() if ": warning: " not in line]
    assert done.returncode == 2 and len(said) == 1 and words in said[0], said


def test_a_file_that_is_no_socket_is_left_alone(sluice_bin, tmp_path):
    path = tmp_path / "plain"
    path.write_text("precious")
    done = subprocess.run([sluice_bin, "serve", "--resp", f"unix:{path}"], capture_output=True, timeout=DEADLINE_S,
                          check=False)
    assert done.returncode == 2 and b"not a socket" in done.stderr and path.read_text() == "precious"


def test_a_socket_somebody_listens_on_is_left_alone(sluice_bin, tmp_path):
    path = tmp_path / "sluice.sock"
    one = subprocess.Popen([sluice_bin, "serve", "--resp", f"unix:{path}", "--http", "127.0.0.1:0"],
                           stderr=subprocess.PIPE)
    try:
        assert any(line == b"sluice: ready\n" for line in iter(one.stderr.readline, b""))
        done = subprocess.run([sluice_bin, "serve", "--resp", f"unix:{path}", "--http", "127.0.0.1:0"],
                              capture_output=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 2 and b"address already in use" in done.stderr and path.exists()
    finally:
        one.terminate()
        assert one.wait(DEADLINE_S) == 0
        one.stderr.close()
    assert not path.exists()


def test_limits_are_judged_by_the_store_that_is_kept(server):
    """A new place of the counters needs a restart: what the nodes of the old one can't decide is refused until then."""
    one = server(policy="store: {redis: '127.0.0.1:%d', via: script, ready-after: 0s}\n"
                        "limits: [{name: a, key: user, limit: 2/1m}]\n" % free_port())
    for wanted, status in (("limit: '1/month at Europe/Berlin'", 409), ("limit: sliding-log 5/1m, reserve: {}", 409),
                           ("limit: 5/1m, cost: 2", 409),
                           ("limit: concurrency 5 lease 1m, candidate: concurrency 5000 lease 1m", 409),
                           ("limit: 3/1m", 200)):
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write("store: {memory: 64MiB}\nlimits: [{name: a, key: user, limit: 2/1m}, {name: m, key: user, %s}]\n"
                    % wanted)
        with one.http() as http:
            told = http.post("/v1/reload", b"")
            assert told[0] == status and (status == 200 or "'m' needs Sluice's module" in str(told[2])), told
