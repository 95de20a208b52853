"""What the server refuses at its start, and SIGHUP: the policy read again under traffic, a bad one left alone."""

import signal
import subprocess
import threading

import pytest

from harness import DEADLINE_S, still_serves

FIVE = "limits:\n  - {name: a, key: user, limit: fixed-window 5/1d}\n"
NINE = "limits:\n  - {name: a, key: user, limit: fixed-window 9/1d}\n"


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
    one.stderr.wait_for(lambda line: line.startswith("sluice: took over "))
    for left in (7, 6, 5, 4):  # over new connections, so that every worker is asked
        assert admit(one)[1:3] == [9, left]


@pytest.mark.parametrize(
    "bad", ["limits: 5\n", "limits: [\n", 'listen: {grpc: "127.0.0.1:0"}\n', "store: {file: /x, shared: x}\n"]
)
def test_a_bad_policy_leaves_the_old_one(server, bad):
    one = server(FIVE)
    assert admit(one)[1:3] == [5, 4]
    rewrite(one, bad)
    one.stderr.wait_for(lambda line: line.endswith("was not taken over: the policy of before goes on"))
    assert admit(one)[1:3] == [5, 3]


def test_sighup_without_a_policy_file(server):
    one = server()
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: line == "sluice: nothing to read again: no policy file was given")
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
        said = one.stderr.text().count("took over")
        rewrite(one, NINE if i % 2 == 0 else FIVE)
        one.stderr.wait_for(lambda _, said=said: one.stderr.lines and
                            sum("took over" in line for line in one.stderr.lines) > said)
    over.set()
    for asker in askers:
        asker.join(DEADLINE_S)
    assert not wrong


@pytest.mark.parametrize("policy, words", [
    ("store: {file: /proc/version}\n", "store: "),
    ('listen: {grpc: "127.0.0.1:7381"}\n', "listen.grpc"),
])
def test_what_this_version_does_not_have_is_refused(sluice_bin, tmp_path, policy, words):
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    done = subprocess.run([sluice_bin, "serve", "-c", str(path)], capture_output=True, timeout=DEADLINE_S, check=False)
    said = done.stderr.decode()
    assert done.returncode == 2 and said.count("\n") == 1 and words in said, said


def test_a_file_that_is_no_socket_is_left_alone(sluice_bin, tmp_path):
    path = tmp_path / "plain"
    path.write_text("precious")
    done = subprocess.run([sluice_bin, "serve", "--resp", f"unix:{path}"], capture_output=True, timeout=DEADLINE_S,
                          check=False)
    assert done.returncode == 2 and b"no socket" in done.stderr and path.read_text() == "precious"


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
