"""Envoy's rate limit messages and grpc.health.v1 as protobuf's own Python library has them, and stubs that ask by
python3-grpcio: a client and a codec that are not ours. The messages are described here by hand, as go-control-plane's
envoy module 1.40 has them, since no package of Debian's brings them along."""
import struct

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf import duration_pb2, struct_pb2, wrappers_pb2  # noqa: F401  the pool has to know them

import delays

PACKAGE = "envoy.service.ratelimit.v3"
PATH = f"/{PACKAGE}.RateLimitService/ShouldRateLimit"
OK, OVER_LIMIT = 1, 2
SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK = range(1, 8)
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3

_KINDS = {"string": 9, "bytes": 12, "uint32": 13, "bool": 8, "enum": 13}
_MESSAGES = {
    "Entry": "string key, string value",
    "Override": "uint32 requests_per_unit, enum unit, .google.protobuf.UInt32Value unit_multiplier",
    "Descriptor": "*.sluice.Entry entries, .sluice.Override limit, .google.protobuf.UInt64Value hits_addend, "
                  "bool is_negative_hits",
    "Request": "string domain, *.sluice.Descriptor descriptors, uint32 hits_addend",
    "Limit": "uint32 requests_per_unit, enum unit, string name",
    "Status": "enum code, .sluice.Limit current_limit, uint32 limit_remaining, "
              ".google.protobuf.Duration duration_until_reset",
    "Header": "string key, string value",
    "Response": "enum overall_code, *.sluice.Status statuses, *.sluice.Header response_headers_to_add, "
                "*.sluice.Header request_headers_to_add, bytes raw_body, .google.protobuf.Struct dynamic_metadata",
    "HealthRequest": "string service",
    "HealthResponse": "enum status",
}


def _described():
    file = descriptor_pb2.FileDescriptorProto(name="sluice_rls.proto", package="sluice", syntax="proto3")
    for kind in ("wrappers", "duration", "struct"):
        file.dependency.append(f"google/protobuf/{kind}.proto")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(", "), 1):
            kind, field_name = field.split()
            one = message.field.add(name=field_name, number=number, label=3 if kind[0] == "*" else 1)
            if "." in kind:
                one.type, one.type_name = 11, kind.lstrip("*")
            else:
                one.type = _KINDS[kind]
    pool = descriptor_pool.Default()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(f"sluice.{name}")) for name in _MESSAGES}


MESSAGES = _described()
Request, Response = MESSAGES["Request"], MESSAGES["Response"]


def request(domain, *descriptors, hits=0):
    """A descriptor is a list of (key, value), or (that list, a dict of its other fields)."""
    made = Request(domain=domain, hits_addend=hits)
    for one in descriptors:
        entries, more = one if isinstance(one, tuple) else (one, {})
        descriptor = made.descriptors.add()
        for key, value in entries:
            descriptor.entries.add(key=key, value=value)
        if "hits" in more:
            descriptor.hits_addend.value = more["hits"]
            descriptor.hits_addend.SetInParent()
        descriptor.is_negative_hits = more.get("negative", False)
        if "limit" in more:
            descriptor.limit.requests_per_unit, descriptor.limit.unit = more["limit"][:2]
            descriptor.limit.SetInParent()
            if len(more["limit"]) > 2:
                descriptor.limit.unit_multiplier.value = more["limit"][2]
    return made


class Client:
    """One channel to a server."""

    def __init__(self, address, credentials=None, metadata=()):
        options = [("grpc.enable_http_proxy", 0)]
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials
                        else grpc.insecure_channel(address, options))
        self.metadata = metadata
        self._rate_limit = self.channel.unary_unary(
            PATH, request_serializer=Request.SerializeToString, response_deserializer=Response.FromString)
        health = "/grpc.health.v1.Health/"
        kinds = {"request_serializer": MESSAGES["HealthRequest"].SerializeToString,
                 "response_deserializer": MESSAGES["HealthResponse"].FromString}
        self._check = self.channel.unary_unary(health + "Check", **kinds)
        self._watch = self.channel.unary_stream(health + "Watch", **kinds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def ask(self, domain, *descriptors, hits=0, timeout=120):
        return self.send(request(domain, *descriptors, hits=hits), timeout)

    def ask_later(self, domain, *descriptors, hits=0, timeout=120):
        return self.send_later(request(domain, *descriptors, hits=hits), timeout)

    def send(self, made, timeout=120):
        delays.delay()
        return self._rate_limit(made, timeout=timeout, metadata=self.metadata)

    def send_later(self, made, timeout=120):
        delays.delay()
        return self._rate_limit.future(made, timeout=timeout, metadata=self.metadata)

    def check(self, service=""):
        delays.delay()
        return self._check(MESSAGES["HealthRequest"](service=service), timeout=120).status

    def watch(self, service=""):
        return self._watch(MESSAGES["HealthRequest"](service=service), timeout=120)


def framed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def headers(response):
    return {one.key: one.value for one in response.response_headers_to_add}
