"""What a TLS handshake costs the server: CPU time of new connections to HTTP, beside one without TLS.

Each connection asks /healthz once and ends. Certificates of two kinds, since signing is most of a full handshake, and
resumed sessions, which sign nothing. The client is Python's, on the other core, and costs more; only the server's CPU
time is counted. What OpenSSL's own arithmetic takes here: openssl speed rsa2048 ecdsap256 ecdhx25519
"""
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile

import harness
from rounds import ONLY, ROUNDS

CONNECTIONS = 200
KEYS = {"p256": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "rsa2048": ["rsa:2048"]}
# name, title, kind of key, version, resumed
ROWS = [("tls-none", "without TLS", None, None, False),
        ("tls-p256", "TLS 1.3, ECDSA P-256", "p256", ssl.TLSVersion.TLSv1_3, False),
        ("tls-p256-resumed", "TLS 1.3, resumed", "p256", ssl.TLSVersion.TLSv1_3, True),
        ("tls-p256-12", "TLS 1.2, ECDSA P-256", "p256", ssl.TLSVersion.TLSv1_2, False),
        ("tls-rsa2048", "TLS 1.3, RSA 2048", "rsa2048", ssl.TLSVersion.TLSv1_3, False)]
NAMES = [row[0] for row in ROWS]


def start(folder, kind):
    """A server of one thread whose HTTP listener speaks TLS with a certificate of its own; `kind` None: without TLS."""
    if kind is None:
        return harness.start_sluice("tls-none", "16MiB", 1, "http")
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", *KEYS[kind], "-nodes", "-days", "2", "-subj",
                           "/CN=localhost", "-keyout", f"{folder}/{kind}.key", "-out", f"{folder}/{kind}.pem"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        harness.die(f"openssl: {done.stderr.strip()}")
    more = f"tls: {{certificate: {folder}/{kind}.pem, key: {folder}/{kind}.key}}\n"
    return harness.start_sluice(f"tls-{kind}", "16MiB", 1, "http", more, http='{address: "127.0.0.1:0", tls: true}')


def ask(port, context, session):
    """Connects, asks once, ends. Returns the session that the server gave."""
    plain = socket.create_connection(("127.0.0.1", port), 30)
    used = plain if context is None else context.wrap_socket(plain, session=session)
    used.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = b""
    while part := used.recv(4096):
        answer += part
    if not answer.startswith(b"HTTP/1.1 200"):
        harness.die(f"tls: {answer[:100]!r}")
    if context is not None and used.session_reused != (session is not None):
        harness.die("tls: a session was resumed that should not be, or the other way round")
    given = None if context is None else used.session
    used.close()
    return given


def one_run(server, version, resumed):
    context = None
    if version is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
    session = ask(server.port, context, None)
    before = server.cpu_ns()
    for _ in range(CONNECTIONS):
        given = ask(server.port, context, session if resumed else None)
        session = given if resumed else session
    return (server.cpu_ns() - before) / CONNECTIONS / 1e3


def measure(report):
    rows = [row for row in ROWS if row[0] in ONLY] or ROWS
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        servers = {kind: start(folder, kind) for kind in {row[2] for row in rows}}
        results = {row[0]: [] for row in rows}
        for turn in range(ROUNDS):
            for name, _, kind, version, resumed in rows:
                results[name].append(one_run(servers[kind], version, resumed))
            print(f"bench: round {turn + 1} of {ROUNDS} done", file=sys.stderr, flush=True)
        for server in servers.values():
            server.stop()
    print(f"\nA connection that asks /healthz once: server CPU, us, medians of {ROUNDS} rounds (min..max)")
    for name, title, *_ in rows:
        took = results[name]
        print(f"  {title:44} {statistics.median(took):8.0f} ({min(took):.0f}..{max(took):.0f})")
    report["tls"] = results
