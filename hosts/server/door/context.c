/* What the doors keep in a context, of whichever protocol. */
#include "hosts/server/door/door.h"

#include <stdlib.h>

void sl_door_context_free(struct sl_door_context *context) {
	free(context->resp);
	free(context->http);
	free(context->spop);
	free(context->grpc);
	free(context->rls);
	context->resp = NULL;
	context->http = NULL;
	context->spop = NULL;
	context->grpc = NULL;
	context->rls = NULL;
}
