/* Whether anybody is told of what our commands change. Writing effects and handing them to the server costs as much as
 * a decision, and a server with neither replicas nor an append-only file throws them away.
 *
 * Nobody listens when all of this was found true, which is asked about once a second:
 *   the append-only file is off, the server is in no cluster (which may move slots by ways of its own), it has no
 *   replica, and no backlog, from which one that comes back would go on.
 * From then on a listener begins with what the server forks to save: a replica with its first snapshot, an append-only
 * file that is switched on with its rewrite. So at every fork somebody may listen, until the next asking; and when the
 * server's role changes. What is done between a replica's knock and that fork is in the snapshot.
 *
 * A server that does not tell of all these is told of everything. */
#include "hosts/redis/request.h"

enum { ASK_EVERY = 8 /* of the server's rounds, 10 a second by default */ };

static bool heard = true, can_ask;
static unsigned rounds;

bool slr_is_heard(void) {
	return heard;
}

static void on_beginning(struct RedisModuleCtx *context, struct slr_event event, uint64_t subevent, void *data) {
	(void)context;
	(void)event;
	(void)subevent;
	(void)data;
	heard = true;
	rounds = 0;
}

/* Whether a field of INFO is there and 0. */
static bool is_zero(struct RedisModuleServerInfoData *info, const char *field) {
	int wrong = SLR_REDIS_ERR;
	return slr_ServerInfoGetFieldUnsigned(info, field, &wrong) == 0 && wrong == SLR_REDIS_OK;
}

static bool anybody(struct RedisModuleCtx *context) {
	struct RedisModuleServerInfoData *info;
	bool nobody;
	if ((slr_GetContextFlags(context) & (SLR_CONTEXT_AOF | SLR_CONTEXT_CLUSTER)) != 0)
		return true;
	info = slr_GetServerInfo(context, "replication");
	if (info == NULL)
		return true;
	nobody = is_zero(info, "connected_slaves") && is_zero(info, "repl_backlog_active");
	slr_FreeServerInfo(context, info);
	return !nobody;
}

static void on_round(struct RedisModuleCtx *context, struct slr_event event, uint64_t subevent, void *data) {
	(void)event;
	(void)subevent;
	(void)data;
	if (heard && can_ask && ++rounds % ASK_EVERY == 0)
		heard = anybody(context);
}

static bool subscribe(struct RedisModuleCtx *context, uint64_t event, slr_event_callback callback) {
	return slr_SubscribeToServerEvent(context, (struct slr_event){event, 1}, callback) == SLR_REDIS_OK;
}

void slr_listen(struct RedisModuleCtx *context) {
	if (slr_SubscribeToServerEvent == NULL || slr_GetServerInfo == NULL || slr_FreeServerInfo == NULL ||
	    slr_ServerInfoGetFieldUnsigned == NULL)
		return;
	can_ask = subscribe(context, SLR_EVENT_FORK_CHILD, on_beginning) &&
	          subscribe(context, SLR_EVENT_ROLE_CHANGED, on_beginning) && subscribe(context, SLR_EVENT_CRON, on_round);
}
