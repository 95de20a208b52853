/* The doors by the names under which they are counted, and what became of a request. */
#ifndef SL_TRANSPORT_H
#define SL_TRANSPORT_H

enum sl_transport { SL_TRANSPORT_RESP, SL_TRANSPORT_HTTP, SL_TRANSPORT_SPOP, SL_TRANSPORT_GRPC, SL_TRANSPORTS };
/* "resp", "http", "spop", "grpc": in metrics, logs and settings (stats.c) */
extern const char *const sl_transport_names[SL_TRANSPORTS];
enum sl_verdict { SL_VERDICT_ALLOWED, SL_VERDICT_DENIED, SL_VERDICT_SHADOW, SL_VERDICT_ERROR, SL_VERDICTS };

#endif
