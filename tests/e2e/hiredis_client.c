/* A client on libhiredis, as its users write one: connects, logs in where told to, decides, prints what it saw.
 *   hiredis_client PORT [USER SECRET] */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

static int say(redisContext *context, redisReply *reply) {
	if (reply == NULL) {
		printf("broken: %s\n", context->errstr);
		return 1;
	}
	if (reply->type == REDIS_REPLY_ARRAY)
		for (size_t i = 0; i < reply->elements && i < 3; i++)
			printf("%lld ", reply->element[i]->integer);
	else if (reply->type == REDIS_REPLY_INTEGER)
		printf("%lld", reply->integer);
	else
		printf("%s", reply->str);
	printf("\n");
	freeReplyObject(reply);
	return 0;
}

int main(int argc, char **argv) {
	redisContext *context = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
	if (context == NULL || context->err)
		return 2;
	if (argc == 4 && say(context, redisCommand(context, "AUTH %s %s", argv[2], argv[3])) != 0)
		return 1;
	for (int i = 0; i < 3; i++)
		redisAppendCommand(context, "SLUICE.CHECK %b 1 %s", "a\0key", (size_t)5, "fixed-window 2/3660d");
	for (int i = 0; i < 3; i++) {
		redisReply *reply = NULL;
		redisGetReply(context, (void **)&reply);
		say(context, reply);
	}
	say(context, redisCommand(context, "SLUICE.RESET %b %s", "a\0key", (size_t)5, "fixed-window 2/3660d"));
	redisFree(context);
	return 0;
}
