"""The forms of attributes, a second time, slow and obvious: what `ip path method host` count as at every door, and what
values longer than a key count as (CONTRACT 5). On bytes; text() does the same for strings."""
import hashlib
import ipaddress
import re
import socket

KEY_BYTES_MAX = 1024
UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"


def parsed(family, value):
    try:
        return socket.inet_pton(family, value.decode("ascii")) if 0 < len(value) < 46 and b"\0" not in value else None
    except (OSError, UnicodeDecodeError):
        return None


def sixteen(value):
    """An IPv6 address in 16 bytes, its zone dropped; None for anything else."""
    address, percent, zone = value.partition(b"%")
    return None if percent and not zone else parsed(socket.AF_INET6, address)


def is_port(text):
    return re.fullmatch(rb"[0-9]{1,5}", text) is not None and int(text) <= 65535


def address_of(value):
    """4 or 16 bytes; None for what is no address."""
    if value.startswith(b"["):
        inner, bracket, port = value[1:].partition(b"]")
        good = bracket and (port == b"" or (port[:1] == b":" and is_port(port[1:])))
        found = sixteen(inner) if good else None
    elif value.count(b":") == 1:
        host, _, port = value.partition(b":")
        found = parsed(socket.AF_INET, host) if is_port(port) else None
    elif b":" in value:
        found = sixteen(value)
    else:
        found = parsed(socket.AF_INET, value)
    return found[12:] if found is not None and found[:12] == bytes(10) + b"\xff\xff" else found


def ip(value, prefix=64):
    found = address_of(value)
    if found is None:
        return value
    if len(found) == 4 or prefix == 128:
        return str(ipaddress.ip_address(found)).encode()
    return str(ipaddress.ip_network((found, prefix), strict=False)).encode()


def decoded(segment):
    if b"%" not in segment:
        return segment
    out, at = b"", 0
    while at < len(segment):
        code = segment[at + 1:at + 3]
        plain = re.fullmatch(rb"[0-9a-fA-F]{2}", code) and int(code, 16) in UNRESERVED
        if segment[at:at + 1] == b"%" and plain and b"%" not in out[-2:]:
            out, at = out + bytes([int(code, 16)]), at + 3
        else:
            out, at = out + segment[at:at + 1], at + 1
    return out


def path(value):
    value = re.sub(rb"\A[A-Za-z0-9._~+-]+://[^/?#]*", b"", value)
    value = re.split(rb"[?#]", value, maxsplit=1)[0]
    if value == b"":
        return b"/"
    if not value.startswith(b"/"):
        return value[:KEY_BYTES_MAX]
    stack, last = [], b""
    for segment in value[1:].split(b"/"):
        last = decoded(segment)
        if last == b"..":
            stack = stack[:-1]
        elif last not in (b"", b"."):
            stack.append(last)
    slash = stack and last in (b"", b".", b"..")
    return (b"/" + b"/".join(stack) + (b"/" if slash else b""))[:KEY_BYTES_MAX]


def host(value):
    if value.startswith(b"["):
        value = value[:value.index(b"]") + 1] if b"]" in value else value
    elif not (value.count(b":") > 1 and address_of(value) is not None):
        value = value.partition(b":")[0]
    return value[:KEY_BYTES_MAX].rstrip(b".").lower()


def method(value):
    return value[:KEY_BYTES_MAX].upper()


FORMS = {"ip": ip, "path": path, "host": host, "method": method}


def form(name, value):
    return FORMS[name](value) if name in FORMS else value


def text(name, value):
    return form(name, value.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def folded(value):
    """As keys have it."""
    if len(value) <= KEY_BYTES_MAX:
        return value
    return value[:959] + b"~" + hashlib.sha256(value).hexdigest().encode()


def encoded(value):
    """As it stands in a key, between its separators."""
    return value.replace(b"%", b"%25").replace(b",", b"%2C").replace(b"=", b"%3D")
