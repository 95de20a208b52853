"""Malformed and malicious HTTP over a real socket: request smuggling, wrong lengths, broken lines, other protocols.

For each of them there is exactly one answer, a refusal, after which the server closes the connection; or none,
where the
request never ends. Behind every malformed request stands a good one: to answer that too would be to disagree with the
proxy in front about where a request ends, which is what smuggling lives on.
"""

import random
import socket
import time

import pytest

from harness import raw_exchange, still_serves

NEXT = b"GET /healthz HTTP/1.1\r\nHost: smuggled\r\n\r\n"
H = b"Host: x\r\n"
BODY = b'{"key":"k","limits":["7/1h"],"peek":true}'
CHECK = b"POST /v1/check HTTP/1.1\r\n" + H
# neither token characters nor what may separate them at that place
NOT_TOKEN = [bytes([c]) for c in b'\x00\x01\x08\x0b\x0c\x0e\x1b\x1f"(),/;<=>?@[\\]{}\x7f\x80\xff']
NOT_IN_VALUES = [bytes([c]) for c in (*range(0, 9), 11, 12, *range(14, 32), 127)]


def bad_methods():
    for c in NOT_TOKEN:
        yield 400, b"G" + c + b"T / HTTP/1.1\r\n" + H + b"\r\n"
    for method in (b"", b" GET", b"\tGET", b"GET\t", b"G ET", b"get:", b"GET\r", b"GET\x00", b"GET:"):
        yield None, method + b" / HTTP/1.1\r\n" + H + b"\r\n"
    for method in (b"X" * 65, b"X" * 100, b"CONNECT", b"PRI"):
        yield 400, method + b" / HTTP/1.1\r\n" + H + b"\r\n"
    # taken at the proxies' doors alone
    for method in (b"FOO", b"GETT", b"gET", b"BREW", b"QUERY"):
        yield 405, method + b" / HTTP/1.1\r\n" + H + b"\r\n"
        yield 404, method + b" /nowhere HTTP/1.1\r\n" + H + b"\r\n"
    yield 400, b"CONNECT x:443 HTTP/1.1\r\n" + H + b"\r\n"


def bad_versions():
    for version in (b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/2", b"HTTP/3.0", b"HTTP/9.9", b"HTTP/11.1",
                    b"HTTP/1.10",
                    b"HTTP/1.", b"HTTP/1", b"HTTP/.1", b"HTTP/", b"HTTP", b"HTP/1.1", b"http/1.1", b"Http/1.1",
                    b"HTTP/-1.1", b"HTTP/1,1", b"HTTP/1.1x", b"HTTP/1.1 x", b"HTTP/1.1 ", b"HTTP/ 1.1", b"HTTP /1.1",
                    b"HTTP\\1.1", b"ICE/1.0", b"RTSP/1.0", b"SIP/2.0", b"x", b"HTTP/01.1", b"HTTP/1.01", b"HTTP/a.b",
                    b"HTTP/1.1\x00", b"\x00HTTP/1.1", b"HTTP/1.1\tx"):
        yield None, b"GET / " + version + b"\r\n" + H + b"\r\n"
    yield None, b"GET /\r\n" + H + b"\r\n"
    yield None, b"GET /\r\n\r\n"
    yield None, b"GET\r\n\r\n"


def bad_targets():
    for target in (b"", b"x", b"healthz", b"*x", b"//\x00", b"/a b", b"/a\tb", b"/a  b", b"/#", b"/a#b", b"#", b"?a=b",
                   b"x:80", b"1.2.3.4", b"http:/x", b"http:x", b"https:", b"ftp://x/", b"file:///etc/passwd", b"://x/",
                   b"http://", b"http:///healthz", b"https://?a", b"http://a b/", b"http://u@h/healthz",
                   b"http://h<x>/",
                   b"http://h\\x/", b"\\healthz", b"javascript:1", b"mailto:a@b", b'"/healthz"', b"</healthz>"):
        yield 400, b"GET " + target + b" HTTP/1.1\r\n" + H + b"\r\n"
    for c in (*range(0, 9), 11, 12, *range(14, 32), 127):
        yield 400, b"GET /a" + bytes([c]) + b"b HTTP/1.1\r\n" + H + b"\r\n"
    yield 414, b"GET /" + b"a" * 20000
    yield 414, b"GET /?" + b"a=b&" * 5000


def bad_names():
    for c in NOT_TOKEN + [b" ", b"\t", b"\r", b"\n"]:
        for name in (c + b"X", b"X" + c + b"Y", b"X" + c):
            yield 400, b"GET / HTTP/1.1\r\n" + H + name + b": 1\r\n\r\n"
    for line in (b": x", b":", b"no-colon", b"no colon: x", b"=x: y", b"a;b: c"):
        yield 400, b"GET / HTTP/1.1\r\n" + H + line + b"\r\n\r\n"
        yield 400, b"GET / HTTP/1.1\r\n" + line + b"\r\n" + H + b"\r\n"


def bad_values():
    for c in NOT_IN_VALUES:
        for value in (c, b"a" + c + b"b", b"a" + c):
            yield 400, b"GET / HTTP/1.1\r\n" + H + b"X: " + value + b"\r\n\r\n"
    for split in (b"\n", b"\r", b"\r\r\n", b"\n\r", b"\n\n", b"\r\n ", b"\r\n\t", b"\r\n \r\n ", b"\n ", b"\r "):
        yield 400, b"GET / HTTP/1.1\r\n" + H + b"X: a" + split + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    yield 400, b"GET / HTTP/1.1\r\n folded: first\r\n" + H + b"\r\n"
    yield 400, b"GET / HTTP/1.1\r\n" + b"\t\r\n" + H + b"\r\n"


def bad_line_ends():
    for line in range(4):
        for end in (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\r\n\r"):
            if line == 3 and end == b"\r\n\r":
                continue  # a good request, and a CR behind it
            parts = [b"GET / HTTP/1.1", b"Host: x", b"X: y", b""]
            yield None if line == 0 else 400, b"".join(p + (end if i == line else b"\r\n") for i, p in enumerate(parts))
    yield 400, b"\nGET / HTTP/1.1\r\n" + H + b"\r\n"
    yield 400, b"\rGET / HTTP/1.1\r\n" + H + b"\r\n"
    yield 400, b"\r\n \r\nGET / HTTP/1.1\r\n" + H + b"\r\n"


def bad_hosts():
    yield 400, b"GET / HTTP/1.1\r\n\r\n"
    yield 400, b"GET / HTTP/1.1\r\nX: y\r\n\r\n"
    yield 400, b"GET http://x/ HTTP/1.1\r\n\r\n"
    for second in (b"Host: x", b"Host: y", b"HOST: x", b"Host:", b"X: y\r\nhost: z"):
        yield 400, b"GET / HTTP/1.1\r\n" + H + second + b"\r\n\r\n"
        yield 400, b"GET http://x/ HTTP/1.1\r\n" + H + second + b"\r\n\r\n"
    for host in (b"a b", b"a/b", b"a\\b", b"u@h", b"http://x", b"<x>", b"a?b", b"a#b", b'"x"', b"a^b", b"a|b", b"{x}",
                 b"a`b", b"x, y", b"\xc3\xa9", b"x\x00y"):
        yield 400, b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"


def bad_lengths():
    for length in (b"+5", b"-1", b"-0", b"0x5", b"5 5", b"5,5", b"5, 6", b"5,", b",5", b"", b" ", b"5;", b"5.0", b"5e1",
                   b"five", b"1_0", b"\xd9\xa5", b"5\t6", b"'5'", b'"5"', b"99999999999999999999",
                   b"18446744073709551616",
                   b"18446744073709551621", b"36893488147419103237", b"0" * 30 + b"x", b"\x0b5", b"5\x0b", b"5\x00"):
        yield 400, CHECK + b"Content-Length: " + length + b"\r\n\r\nhello"
    for length in (b"65537", b"1000000", b"4294967296", b"4294967301", b"9223372036854775807", b"9223372036854775808",
                   b"18446744073709551615"):
        yield 413, CHECK + b"Content-Length: " + length + b"\r\n\r\nhello"
    for first, second in ((b"5", b"6"), (b"6", b"5"), (b"5", b"5"), (b"0", b"5"), (b"5", b"0"), (b"5", b"-5"), (b"5",
                                                                                                                b"")):
        yield 400, CHECK + b"Content-Length: %b\r\nContent-Length: %b\r\n\r\nhello" % (first, second)
        yield 400, CHECK + b"Content-Length: %b\r\nX: y\r\nCONTENT-LENGTH: %b\r\n\r\nhello" % (first, second)
    for name in (b"Content-Length ", b"Content-Length\t", b" Content-Length", b"Content-Length\x00", b"Content Length",
                 b"\x0bContent-Length", b"Content-Length\x0b"):
        yield 400, CHECK + name + b": 5\r\n\r\nhello"


def smuggling():
    chunks = b"0\r\n\r\n" + NEXT
    # CL.TE and TE.CL, in either order, with lengths that fit one or the other
    for length in (b"0", b"3", b"4", b"5", b"6", b"13", b"%d" % len(chunks)):
        yield 400, CHECK + b"Content-Length: " + length + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
        yield 400, CHECK + b"Transfer-Encoding: chunked\r\nContent-Length: " + length + b"\r\n\r\n" + chunks
        yield 400, CHECK + b"Transfer-Encoding:\r\nContent-Length: " + length + b"\r\n\r\n" + chunks
    # TE.TE: codings that one server knows and the other does not
    for coding in (b"chunked, chunked", b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, identity",
                   b"identity, chunked", b"xchunked", b"chunkedx", b"chunked;q=1", b"chunked;", b"\x0bchunked",
                   b"chunked\x0b",
                   b"chunked\x00", b"'chunked'", b'"chunked"', b"chun ked", b",chunked", b"chunked,", b"", b"cow",
                   b"\x0cchunked",
                   b"chunk", b"[chunked]", b"chunked chunked", b"trailers", b"deflate"):
        yield None, CHECK + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + chunks
        yield None, CHECK + b"Content-Length: 5\r\nTransfer-Encoding: " + coding + b"\r\n\r\n" + chunks
        yield None, CHECK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: " + coding + b"\r\n\r\n" + chunks
    for name in (b"Transfer-Encoding ", b"Transfer-Encoding\t", b" Transfer-Encoding", b"Transfer-Encoding\x00",
                 b"Transfer Encoding", b"\x0bTransfer-Encoding", b"Transfer-Encoding\x0b", b"X: y\nTransfer-Encoding",
                 b"X: y\rTransfer-Encoding", b"X:\nTransfer-Encoding", b"\nTransfer-Encoding", b"\rTransfer-Encoding"):
        yield 400, CHECK + name + b": chunked\r\n\r\n" + chunks
        yield 400, CHECK + b"Content-Length: 5\r\n" + name + b": chunked\r\n\r\n" + chunks
    for value in (b"\n chunked", b"\r\n chunked", b"\r\n\tchunked", b"\r chunked", b"\n\tchunked"):
        yield 400, CHECK + b"Transfer-Encoding:" + value + b"\r\n\r\n" + chunks
    yield 400, b"POST /v1/check HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    kept = b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield 400, b"POST /v1/check HTTP/1.0\r\n" + H + kept + chunks


def bad_chunks():
    start = CHECK + b"Transfer-Encoding: chunked\r\n\r\n"
    for size in (b"g", b"-1", b"+1", b"0x1", b" 1", b"\t1", b"", b"1,", b"1.", b"_1", b"1_0", b"\x001", b"1\x00", b"G1",
                 b"1g", b"\x0b1", b"1\x0b", b"'1'", b"10000000000000000", b"FFFFFFFFFFFFFFFFF", b"fffffffffffffffff1"):
        yield 400, start + size + b"\r\nx\r\n0\r\n\r\n"
    for size in (b"10001", b"7fffffff", b"80000000", b"100000000", b"7fffffffffffffff", b"8000000000000000",
                 b"ffffffffffffffff"):
        yield 413, start + size + b"\r\nx\r\n0\r\n\r\n"
    for bad in (b"1\nx\n0\n\n", b"1\nx\r\n0\r\n\r\n", b"1\r\nx\n0\r\n\r\n", b"1\r\nx0\r\n\r\n", b"1\r\nxy\r\n0\r\n\r\n",
                b"1\r\nx\r0\r\n\r\n", b"1\rx\r\n0\r\n\r\n", b"1\r\rx\r\n0\r\n\r\n", b"2\r\nx\r\n0\r\n\r\n", b"0\n\n",
                b"0\r\n\n", b"0\r\r\n", b"0\r\rX\n", b"1\r\nx\r\n\r\n0\r\n\r\n", b"1;a\nb\r\nx\r\n0\r\n\r\n",
                b"1;a\rb\r\nx\r\n0\r\n\r\n", b"1;a=\x00\r\nx\r\n0\r\n\r\n", b'1;a="\n"\r\nx\r\n0\r\n\r\n',
                b"0;a\n\r\n", b"1;\x01\r\nx\r\n0\r\n\r\n"):
        yield 400, start + bad
    for trailer in (b"no colon", b"A : b", b" folded", b"\x00: x", b"A: \x00", b"A: b\rc", b"A: b\nc", b": x",
                    b"A\x0b: b",
                    b"A: b\r\n c"):
        yield 400, start + b"0\r\n" + trailer + b"\r\n\r\n"
    yield 413, start + b"1\r\nx\r\n" * 40000 + b"0\r\n\r\n"
    yield 413, start + b"8000\r\n" + b"x" * 0x8000 + b"\r\n8001\r\n" + b"x" * 0x8001 + b"\r\n0\r\n\r\n"


def too_much():
    yield 431, b"GET / HTTP/1.1\r\n" + H + b"X: " + b"a" * 20000 + b"\r\n\r\n"
    yield 431, b"GET / HTTP/1.1\r\n" + H + b"X" * 20000 + b": a\r\n\r\n"
    yield 431, b"GET / HTTP/1.1\r\n" + H + b"A: b\r\n" * 200 + b"\r\n"
    yield 431, b"GET / HTTP/1.1\r\n" + H + b"A:\r\n" * 100 + b"\r\n"
    yield 431, b"GET / HTTP/1.1\r\n" + H + b"A: b\r\n" * 5000
    yield 417, b"GET / HTTP/1.1\r\n" + H + b"Expect: the-unexpected\r\n\r\n"
    yield 417, CHECK + b"Expect: 100-continue, x\r\nContent-Length: 5\r\n\r\nhello"
    yield 415, CHECK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"
    yield 415, CHECK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


def other_protocols():
    for talk in (b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"EHLO x\r\n", b"HELO x\r\n",
                 b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12),
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
                 bytes(100), b"\xff" * 100, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"get key\r\n",
                 b"stats\r\n",
                 b"{}\r\n", b"<xml/>\r\n", b"USER anonymous\r\n", b"\x00\x00\x00\x18SLUICE", b"\x80\x2e\x01\x00\x02",
                 b"A" * 70000, b"GET", b" ", b"\t\r\n"):
        yield None, talk + (b"" if len(talk) > 1000 else b"\r\n\r\n")


REFUSED = [(name, i, status, data)
           for name, group in (("method", bad_methods), ("version", bad_versions), ("target", bad_targets),
                               ("name", bad_names), ("value", bad_values), ("line end", bad_line_ends), ("host",
                                                                                                         bad_hosts),
                               ("length", bad_lengths), ("smuggling", smuggling), ("chunk", bad_chunks),
                               ("too much", too_much), ("protocol", other_protocols))
           for i, (status, data) in enumerate(group())]


def unfinished():
    """Beginnings of good requests, after which nothing more comes."""
    good = CHECK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    yield from (good[:n] for n in range(1, len(good), 3))
    chunked = CHECK + b"Transfer-Encoding: chunked\r\n\r\n%x;e=1\r\n" % len(BODY) + BODY + b"\r\n0\r\nT: r\r\n\r\n"
    yield from (chunked[:n] for n in range(len(CHECK) + 30, len(chunked), 3))


def until_closed(port, data, cut=None):
    """Sends, in two parts where `cut` says so, and reads until the server closes: our side stays open all the while."""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.sendall(data[:cut])
            if cut is not None:
                time.sleep(0)
                sock.sendall(data[cut:])
        except OSError:
            pass  # closed while we were sending
        got = b""
        while True:
            try:
                part = sock.recv(65536)
            except ConnectionResetError:
                return got
            except TimeoutError:
                raise AssertionError(f"the connection is still open after {got!r}") from None
            if not part:
                return got
            got += part


def statuses(got):
    """The statuses of whole answers, strictly: what a client would read, and nothing behind them."""
    found = []
    while got:
        assert got.startswith(b"HTTP/1.1 "), got
        head, _, rest = got.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields.get(b"content-length", b"0"))
        assert len(rest) >= size, got
        found.append((int(head[9:12]), fields))
        got = rest[size:]
    return found


def test_every_malformed_request_gets_one_answer_and_is_the_last(server):
    s = server()
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    wrong = []
    for name, i, status, data in REFUSED:
        for cut in (None, dice.randrange(1, len(data) + 1)):
            try:
                answers = statuses(until_closed(s.http_port, data + NEXT, cut))
            except AssertionError as e:
                answers = str(e)
            good = (len(answers) == 1 and answers[0][0] in ((status,) if status else (400, 413, 414, 431, 501, 505))
                    and answers[0][1].get(b"connection") == b"close"
                    and answers[0][1].get(b"content-type") == b"application/problem+json")
            if not good:
                wrong.append((name, i, status, data[:120], cut, answers))
    print(f"{len(REFUSED)} malformed requests, each whole and cut in two (seed {seed}): {len(wrong)} answered wrongly")
    assert len(REFUSED) >= 341
    assert not wrong, "\n".join(map(repr, wrong[:40]))
    still_serves(s)


def test_a_request_that_does_not_end_is_not_answered(server):
    s = server()
    cases = list(unfinished())
    print(f"{len(cases)} requests that do not end")
    for data in cases:
        assert raw_exchange(s.http_port, data) == b"", data
    still_serves(s)


@pytest.mark.parametrize("leftover", [b"X", b"\x00", b"GE", b"0\r\n\r\n", b"}\r\n", b" ",
                         b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_what_is_left_of_a_body_is_the_next_request_or_none(server, leftover):
    """A body that is longer than it says: the request is answered by its length, the rest is judged for itself."""
    s = server()
    good = CHECK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    answers = [status for status, _ in statuses(until_closed(s.http_port, good + leftover + NEXT))]
    assert answers[0] == 200 and len(answers) == 2 and answers[1] in (400, 405), answers
    chunked = CHECK + b"Transfer-Encoding: chunked\r\n\r\n%x;ext=1\r\n" % len(BODY) + BODY
    chunked += b"\r\n0\r\nContent-Length: 9\r\n\r\n"
    answers = [status for status, _ in statuses(until_closed(s.http_port, chunked + leftover + NEXT))]
    assert answers[0] == 200 and len(answers) == 2 and answers[1] in (400, 405), answers
    still_serves(s)


def test_a_good_pipeline_is_answered_in_order(server):
    s = server()
    good = CHECK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    last = b"GET http://other:80/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = [status for status, _ in statuses(until_closed(s.http_port, (good + b"\r\n" + NEXT) * 20 + last + NEXT))]
    assert answers == [200, 200] * 20 + [404]
