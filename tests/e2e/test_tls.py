"""TLS on both doors: agreed, refused, loaded anew; with Python's own TLS, openssl, curl and redis-cli.

The certificates are made by openssl for each run, in a folder that goes with it.
"""

import concurrent.futures
import contextlib
import os
import shutil
import socket
import ssl
import subprocess

import pytest

from harness import DEADLINE_S, Resp, encode, raw_exchange, still_serves, wait_until

HELLO = "HTTP/1.1 200 OK\r\n"


def openssl(*args, **options):
    return subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=DEADLINE_S, **options)


def certificate(folder, name, issuer=None, subject="localhost"):
    """Makes NAME.pem and NAME.key: signed by ISSUER, or by itself."""
    at = os.path.join(folder, name)
    openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", at + ".key", "-out", at + ".csr", "-subj",
            f"/CN={subject}")
    with open(at + ".ext", "w", encoding="ascii") as f:
        f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n" if issuer else "basicConstraints=critical,CA:TRUE\n")
    signing = ["-CA", f"{folder}/{issuer}.pem", "-CAkey", f"{folder}/{issuer}.key", "-CAcreateserial"] if issuer else \
        ["-signkey", at + ".key"]
    openssl("x509", "-req", "-in", at + ".csr", "-days", "2", "-out", at + ".pem", "-extfile", at + ".ext", *signing)


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("certs"))
    certificate(folder, "ca", subject="Test CA")
    certificate(folder, "other-ca", subject="Another CA")
    certificate(folder, "server", "ca")
    certificate(folder, "second", "ca")
    certificate(folder, "client", "ca", "client")
    certificate(folder, "stranger", "other-ca", "stranger")
    return folder


def policy(certs, extra="", name="server", client_ca=None, threads=1):
    ca = f", client-ca: {certs}/{client_ca}.pem" if client_ca else ""
    return (f"threads: {threads}\n"
            f"tls: {{certificate: {certs}/{name}.pem, key: {certs}/{name}.key{ca}}}\n"
            "listen:\n"
            '  resp: ["127.0.0.1:0", {address: "127.0.0.1:0", tls: true}]\n'
            '  http: ["127.0.0.1:0", {address: "127.0.0.1:0", tls: true}]\n' + extra)


def rewrite(server, text):
    with open(server.policy_file, "w", encoding="utf-8") as f:
        f.write(text)
    server.process.send_signal(1)  # SIGHUP


def client_context(certs, cert=None, alpn=None, **versions):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(f"{certs}/ca.pem")
    if cert:
        context.load_cert_chain(f"{certs}/{cert}.pem", f"{certs}/{cert}.key")
    if alpn:
        context.set_alpn_protocols(alpn)
    for name, value in versions.items():
        setattr(context, name, value)
    return context


def dial(port, context, session=None):
    raw = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        return context.wrap_socket(raw, server_hostname="localhost", session=session)
    except BaseException:
        raw.close()
        raise


class TlsResp(Resp):
    """The harness's client over TLS."""

    def __init__(self, port, context):
        self.sock = dial(port, context)
        self.buffer = b""


def http_get(sock, path="/healthz"):
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return sock.recv(65536).decode()


def errors(server, door):
    with server.http() as client:
        return client.ask("GET", "/v1/figures")[2]["protocol_errors"][door]


def test_ready_asks_over_tls(server, sluice_bin, certs):
    one = server(policy(certs), listen=())
    words = [sluice_bin, "ready", "--tls", "--server", f"localhost:{one.ports('http')[1]}"]
    for more, status in ((["--ca", f"{certs}/ca.pem"], 0), ([], 2)):
        done = subprocess.run([*words, *more], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == status, done.stderr


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("threads", [1, 3])
def test_both_doors_speak_tls(server, certs, version, threads):
    one = server(policy(certs, threads=threads), listen=())
    wanted = getattr(ssl.TLSVersion, version)
    context = client_context(certs, minimum_version=wanted, maximum_version=wanted)
    with TlsResp(one.ports("resp")[1], context) as client:
        assert client.sock.version() == version.replace("_", ".")
        assert client.call("SLUICE.CHECK", "tls", 1, "5/1h")[:3] == [1, 5, 4]
        client.send(encode("SLUICE.PEEK", "tls", 1, "5/1h") * 3000)  # many records each way
        assert all(client.read()[2] == 4 for _ in range(3000))
        payload = bytes(range(256)) * 256  # 64 KB: more than a record, than a read, than what is kept in front
        assert client.call("ECHO", payload) == payload
    with dial(one.ports("http")[1], context) as sock:
        assert http_get(sock).startswith(HELLO) and http_get(sock).startswith(HELLO)
    still_serves(one)


def test_alpn_agrees_on_http_and_on_nothing_else(server, certs):
    one = server(policy(certs), listen=())
    http_port, resp_port = one.ports("http")[1], one.ports("resp")[1]
    with dial(http_port, client_context(certs, alpn=["h2", "http/1.1"])) as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"
    with dial(http_port, client_context(certs)) as sock:
        assert sock.selected_alpn_protocol() is None
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        dial(http_port, client_context(certs, alpn=["h2"]))
    with dial(resp_port, client_context(certs, alpn=["redis"])) as sock:
        assert sock.selected_alpn_protocol() is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_refused(server, certs):
    one = server(policy(certs), listen=())
    context = client_context(certs)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        dial(one.ports("http")[1], context)
    assert errors(one, "http") == 1


def test_sessions_are_resumed_and_nothing_is_renegotiated(server, certs):
    one = server(policy(certs), listen=())
    context = client_context(certs, maximum_version=ssl.TLSVersion.TLSv1_2)
    with dial(one.ports("http")[1], context) as sock:
        assert http_get(sock).startswith(HELLO) and not sock.session_reused
        session = sock.session
    with dial(one.ports("http")[1], context, session) as sock:
        assert http_get(sock).startswith(HELLO) and sock.session_reused
    port = str(one.ports("http")[1])
    asked = subprocess.run(["openssl", "s_client", "-tls1_2", "-connect", "127.0.0.1:" + port, "-legacy_renegotiation"],
                           input=b"R\n", capture_output=True, timeout=DEADLINE_S)
    assert b"no renegotiation" in asked.stderr + asked.stdout
    still_serves(one)


def test_clients_must_show_a_certificate_where_a_ca_is_named(server, certs):
    one = server(policy(certs, client_ca="ca"), listen=())
    for port, ask in ((one.ports("http")[1], http_get), (one.ports("resp")[1], lambda sock: sock.sendall(b"PING\r\n") or
                                                         sock.recv(100).decode())):
        with dial(port, client_context(certs, "client")) as sock:
            assert ask(sock).startswith((HELLO, "+PONG"))
        for cert in (None, "stranger"):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                with dial(port, client_context(certs, cert)) as sock:  # 1.3: the client hears of it with the answer
                    ask(sock)
                    raise ConnectionError(sock.recv(1))
    assert errors(one, "http") == 2 and errors(one, "resp") == 2
    still_serves(one)


def serial_of(port, certs):
    with dial(port, client_context(certs)) as sock:
        return sock.getpeercert()["serialNumber"]


def test_a_new_certificate_is_for_new_connections_and_a_bad_one_changes_nothing(server, certs):
    one = server(policy(certs), listen=())
    port = one.ports("resp")[1]
    first = serial_of(port, certs)
    with TlsResp(port, client_context(certs)) as old:
        assert old.call("PING") == b"PONG"
        rewrite(one, policy(certs, name="second"))
        wait_until(lambda: serial_of(port, certs) != first, "the new certificate was not used")
        second = serial_of(port, certs)
        assert old.call("PING") == b"PONG" and old.sock.getpeercert()["serialNumber"] == first
        for bad, why in (("nowhere", "nowhere.pem"), ("mixed", "mixed.key"), ("junk", "junk.pem")):
            shutil.copy(f"{certs}/second.pem", f"{certs}/mixed.pem")
            shutil.copy(f"{certs}/server.key", f"{certs}/mixed.key")
            with open(f"{certs}/junk.pem", "w", encoding="ascii") as f:
                f.write("-----BEGIN CERTIFICATE-----\nnonsense\n")
            rewrite(one, policy(certs, name=bad))
            one.stderr.wait_for(lambda line, text=why: "tls." in line and text in line)
            assert serial_of(port, certs) == second and old.call("PING") == b"PONG"
        rewrite(one, "limits: []\n")  # no certificate any more, and listeners that need one
        one.stderr.wait_for(lambda line: "speaks TLS" in line)
        assert serial_of(port, certs) == second
    still_serves(one)


def test_a_bad_certificate_at_the_start_says_what_and_where(sluice_bin, certs, tmp_path):
    for name, client_ca, why in (("nowhere", None, "tls.certificate: "), ("server", "nowhere", "tls.client-ca: ")):
        text = policy(certs, name=name, client_ca=client_ca)
        (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
        ended = subprocess.run([sluice_bin, "serve", "-c", str(tmp_path / "policy.yaml")], capture_output=True,
                               timeout=DEADLINE_S, text=True)
        assert ended.returncode == 2 and why in ended.stderr and "nowhere.pem: No such file" in ended.stderr


def test_plain_bytes_at_a_tls_port_and_tls_at_a_plain_one(server, certs):
    one = server(policy(certs), listen=())
    for door, data in (("http", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), ("resp", b"*1\r\n$4\r\nPING\r\n"),
                       ("resp", b"\x00" * 500), ("http", b"\x16\x03\x01\x02\x00junk" + b"x" * 600)):
        before = errors(one, door)
        answer = raw_exchange(one.ports(door)[1], data, until_close=False)
        assert b"HTTP" not in answer and b"PONG" not in answer and len(answer) < 20  # an alert, or nothing
        assert errors(one, door) == before + 1
    for door in ("http", "resp"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            dial(one.ports(door)[0], client_context(certs))
    still_serves(one)


def test_handshakes_that_stall_are_closed_and_hold_nobody_up(server, certs):
    one = server(policy(certs, "connections: {request: 500ms}\n"), listen=())
    stalled = [socket.create_connection(("127.0.0.1", one.ports("resp")[1]), DEADLINE_S) for _ in range(50)]
    for i, sock in enumerate(stalled):
        sock.sendall(b"\x16\x03\x01\x02\x00\x01"[:i % 7])
    with TlsResp(one.ports("resp")[1], client_context(certs)) as client:
        assert client.call("PING") == b"PONG"
    for sock in stalled:
        with sock:
            try:
                assert sock.recv(100) == b""
            except ConnectionResetError:
                pass
    still_serves(one)


def test_a_peer_that_does_not_read_holds_nobody_up(server, certs):
    """Answers wait in pieces of a record, and go on with the very bytes that they stopped at."""
    one = server(policy(certs), listen=())
    count, payload = 300, bytes(range(256)) * 200
    with TlsResp(one.ports("resp")[1], client_context(certs)) as slow:
        # one thread writes while none reads: TLS on one socket is not for two threads at once, so by turns
        slow.sock.setblocking(False)
        data, sent, got = encode("ECHO", payload) * count, 0, bytearray()
        expected = (b"$%d\r\n%s\r\n" % (len(payload), payload)) * count
        while len(got) < len(expected):
            try:
                sent += slow.sock.send(data[sent:sent + 65536]) if sent < len(data) else 0
            except ssl.SSLWantWriteError:
                pass
            if sent < len(data) and len(got) * 3 < sent:  # let it fill up first
                still_serves(one)
            try:
                got += slow.sock.recv(1 << 16)
            except ssl.SSLWantReadError:
                pass
        assert bytes(got) == expected
    still_serves(one)


def test_connections_cut_in_every_stage(server, certs):
    """Cut while greeting, asking and answering: no file and no memory stays."""
    one = server(policy(certs), listen=())
    context = client_context(certs)

    def cut(i):
        raw = socket.create_connection(("127.0.0.1", one.ports("resp")[1]), DEADLINE_S)
        if i % 3 == 0:
            raw.sendall(b"\x16\x03\x01\x00\x05\x01\x00")
            raw.close()
            return
        with context.wrap_socket(raw, server_hostname="localhost") as sock:
            sock.sendall((encode("ECHO", b"x" * 50000) * 20)[:-(i % 7) - 1])
            if i % 3 == 1 and i % 2:
                with contextlib.suppress(ssl.SSLError, ConnectionError):  # answers were still to come
                    sock.unwrap()
            elif i % 3 == 1:
                sock.shutdown(socket.SHUT_RDWR)

    def files():
        return len(os.listdir(f"/proc/{one.process.pid}/fd"))

    still_serves(one)
    before = files()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(cut, range(120)))
    wait_until(lambda: files() <= before, "files of cut connections were kept")
    still_serves(one)


def test_curl_and_redis_cli(server, certs):
    one = server(policy(certs), listen=())
    curl = subprocess.run(["curl", "-sS", "--cacert", f"{certs}/ca.pem", "-w", "%{http_code} %{http_version}",
                           f"https://localhost:{one.ports('http')[1]}/healthz"], capture_output=True, timeout=120)
    assert curl.stdout == b"ok\n200 1.1", curl
    cli = subprocess.run(["redis-cli", "--tls", "--cacert", f"{certs}/ca.pem", "-h", "localhost", "-p",
                          str(one.ports("resp")[1]), "SLUICE.CHECK", "cli", "1", "5/1h"], capture_output=True,
                         timeout=DEADLINE_S)
    assert cli.stdout.split()[:3] == [b"1", b"5", b"4"], cli
