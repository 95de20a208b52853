/* A store of this host under the client: the server's own RESP door is fed in this process, without a socket. So a
 * command says and does in a store what it says and does at a server, and nothing of it is written twice. */
#include "hosts/cli/client.h"

#include "base/math.h"
#include "hosts/server/door/door.h"
#include "hosts/server/watch/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct sl_client_here {
	struct sl_door_context context;
	struct sluice_policy *none; /* without limits, where there is no other; NULL: there is */
	void *state;
	struct sl_buffer in, out;
	size_t read; /* of `out` */
};

bool sl_client_open_store(struct sl_client *client, struct sluice_store *store, const struct sluice_policy *policy,
                          struct sluice_error *error) {
	struct sl_client_here *here = calloc(1, sizeof *here);
	sl_client_begin(client);
	client->here = here;
	sl_log_set_least(SL_LOG_WARNING); /* what is done is told by the verb: a server's log tells who did it */
	if (here != NULL &&
	    (policy != NULL || sluice_policy_load(&here->none, sl_str("limits: []\n"), NULL) == SLUICE_OK)) {
		here->context = (struct sl_door_context){.store = store,
		                                         .policy = policy != NULL ? policy : here->none,
		                                         .connection_id = 1,
		                                         .match_buffer = malloc(SLUICE_MATCH_BYTES_MAX)};
		here->state = here->context.match_buffer != NULL ? sl_door_resp.open(&here->context) : NULL;
	}
	if (here != NULL && here->state != NULL) {
		client->reached = true;
		return true;
	}
	snprintf(error->text, sizeof error->text, "no memory");
	sl_client_here_end(client);
	return false;
}

void sl_client_here_end(struct sl_client *client) {
	struct sl_client_here *here = client->here;
	if (here == NULL)
		return;
	if (here->state != NULL)
		sl_door_resp.close(here->state);
	sl_door_context_free(&here->context);
	free(here->context.match_buffer);
	sluice_policy_free(here->none);
	sl_buffer_free(&here->in);
	sl_buffer_free(&here->out);
	free(here);
	client->here = NULL;
}

/* The door keeps nothing of what it did not consume: that is given again, with more after it. */
ssize_t sl_client_here_send(struct sl_client *client, const void *data, size_t len) {
	struct sl_client_here *here = client->here;
	enum sl_door_verdict verdict = SL_DOOR_MORE;
	here->context.now = sluice_store_now(here->context.store);
	if (!sl_buffer_append(&here->in, data, len)) {
		errno = ENOMEM;
		return -1;
	}
	while (verdict == SL_DOOR_MORE && here->in.len != 0) {
		size_t taken = 0;
		verdict = sl_door_resp.feed(here->state, &here->context, here->in.data, here->in.len, &taken, &here->out);
		here->in.len -= taken;
		memmove(here->in.data, here->in.data + taken, here->in.len);
	}
	return (ssize_t)len;
}

ssize_t sl_client_here_receive(struct sl_client *client, void *data, size_t len) {
	struct sl_client_here *here = client->here;
	size_t got = (size_t)sl_min(here->out.len - here->read, len);
	if (got == 0) { /* a door says nothing, or not all, only where it got no memory to say it */
		errno = ENOMEM;
		return -1;
	}
	memcpy(data, here->out.data + here->read, got);
	here->read += got;
	return (ssize_t)got;
}
