/* See advice.h. */
#include "hosts/server/cluster/advice.h"

#include <string.h>

const char *sl_advice_for(struct sluice_bytes error) {
	static const struct {
		const char *begins, *advice;
	} advice[] = {
		{"OOM", "give the node more memory (maxmemory) or let it evict (maxmemory-policy)"},
		{"WRONGTYPE", "a key of Sluice's holds another type, the script's where the module decides now, or another "
	                  "program's: give the store another prefix (docs/script.md)"},
		{"NOPERM", "let the user run the commands on these keys: ACL SETUSER name +@all ~prefix*"},
		{"NOAUTH", "write user and password-file under store"},
		{"WRONGPASS", "write user and password-file under store as the node has them"},
		{"NOREPLICAS", "the node has fewer replicas than min-replicas-to-write asks for"},
		{"ERR max number of clients", "raise the node's maxclients, or lower threads"},
		{"ERR UPTO is no word", "a node's module is older than this front end: upgrade the nodes first"},
		{"ERR unknown command", "load sluice-module.so on every node, or write via: script"},
		{"READONLY", "a replica was asked: name the primary, or wait for the failover to end"},
		{"MISCONF", "the node can't save to disk and refuses writes: see its log"},
		{"CROSSSLOT", "the node became part of a cluster: this passes by itself"},
	};
	for (size_t i = 0; i < sizeof advice / sizeof advice[0]; i++) {
		size_t len = strlen(advice[i].begins);
		if (error.len >= len && memcmp(error.data, advice[i].begins, len) == 0)
			return advice[i].advice;
	}
	return NULL;
}
