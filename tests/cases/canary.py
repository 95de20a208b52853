"""Who is in a canary, as src/policy/rollout.h promises it, written anew: SipHash-2-4 over the limit's name and the
value, and exact arithmetic on the percentage. tests/cases/twin.py asks this."""

from fractions import Fraction

KEY = b"sluice canary v1"
WORD = 2**64 - 1


def turned(x, bits):
    return (x << bits | x >> (64 - bits)) & WORD


def siphash24(message):
    a, b = (int.from_bytes(KEY[i:i + 8], "little") for i in (0, 8))
    v = [a ^ 0x736F6D6570736575, b ^ 0x646F72616E646F6D, a ^ 0x6C7967656E657261, b ^ 0x7465646279746573]

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & WORD
            v[2] = (v[2] + v[3]) & WORD
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[1]) & WORD
            v[0] = (v[0] + v[3]) & WORD
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def hash_of(limit, value):
    return siphash24(siphash24(limit.encode()).to_bytes(8, "little") + value.encode(errors="surrogateescape"))


def holds(limit, value, percent):
    """Is a value of the share that `percent` ("0.5") of a limit's canary enforces?"""
    return Fraction(hash_of(limit, value), 2**64) * 100 < Fraction(percent)


def observes(limit, written, attributes):
    """Is a request only observed? `written` is what the limit, or the override, says: `observe`, `canary`."""
    if "canary" not in written:
        return written.get("observe", False)
    percent, _, name = written["canary"].partition("% of ")
    return name not in attributes or not holds(limit, attributes[name], percent)
