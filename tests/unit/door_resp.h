/* A client of the RESP door without a socket, for its tests: one worker's context, one store, one connection. */
#ifndef TESTS_DOOR_RESP_H
#define TESTS_DOOR_RESP_H

#include "hosts/server/door/door.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_NS UINT64_C(1800000000000000000) /* a whole minute */

struct client {
	struct sl_door_context context;
	struct sl_buffer out;
	void *state;
	enum sl_door_verdict verdict;
};

static inline void client_connect(struct client *client) {
	client->context.connection_id++;
	client->state = sl_door_resp.open(&client->context);
	client->verdict = SL_DOOR_OPEN;
	assert_non_null(client->state);
}

static inline void client_open(struct client *client, const char *policy_text) {
	struct sluice_policy *policy = NULL;
	struct sluice_store_options options = {.memory_bytes = 1024 * 1024};
	*client = (struct client){.context = {.now = NOW_NS, .peer.text = "192.0.2.1:4321"}};
	assert_int_equal(sluice_policy_load(&policy, sl_str(policy_text), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&client->context.store, &options, NULL), SLUICE_OK);
	client->context.policy = policy;
	client->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	assert_non_null(client->context.match_buffer);
	client_connect(client);
}

static inline void client_close(struct client *client) {
	sl_door_resp.close(client->state);
	sl_door_context_free(&client->context);
	sl_buffer_free(&client->out);
	free(client->context.match_buffer);
	sluice_store_close(client->context.store);
	sluice_policy_free((struct sluice_policy *)client->context.policy);
}

/* Gives the door bytes as a connection would: `kept` bytes that it did not consume come again. Each time they lie in
 * memory of just their size. Returns how many of them it has not consumed in the end. */
static inline size_t client_feed(struct client *client, const char *bytes, size_t len) {
	size_t kept = 0;
	do {
		size_t consumed = 0;
		char *memory = malloc(len - kept != 0 ? len - kept : 1);
		assert_non_null(memory);
		memcpy(memory, bytes + kept, len - kept);
		client->verdict =
			sl_door_resp.feed(client->state, &client->context, memory, len - kept, &consumed, &client->out);
		free(memory);
		assert_true(consumed <= len - kept);
		kept += consumed;
	} while (client->verdict == SL_DOOR_MORE);
	return len - kept;
}

/* Sends bytes whole and returns the answers, NUL-ended, until the next call. */
static inline const char *client_ask(struct client *client, const char *bytes) {
	client->out.len = 0;
	client_feed(client, bytes, strlen(bytes));
	assert_true(sl_buffer_append(&client->out, "", 1));
	client->out.len--;
	return client->out.data;
}

static inline void client_expect(struct client *client, const char *bytes, const char *answers) {
	assert_string_equal(client_ask(client, bytes), answers);
}

/* Seven integers as the doors write them. */
static inline const char *seven(char text[160], long long allowed, long long quota, long long remaining,
                                long long retry_ms, long long reset_ms, long long delay_ms, long long index) {
	snprintf(text, 160, "*7\r\n:%lld\r\n:%lld\r\n:%lld\r\n:%lld\r\n:%lld\r\n:%lld\r\n:%lld\r\n", allowed, quota,
	         remaining, retry_ms, reset_ms, delay_ms, index);
	return text;
}

#endif
