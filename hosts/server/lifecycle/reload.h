/* The policy, prepared and read again. */
#ifndef SL_RELOAD_H
#define SL_RELOAD_H

#include "hosts/server/lifecycle/inside.h"

/* Makes of a reading of the policy's file, which is freed, what workers use; outcome->problems and messages say what
 * was wrong. NULL: not to be served. Any thread. */
struct sl_shared_policy *sl_policy_prepare(const struct sl_server_options *options, struct sl_policy_reading *reading,
                                           struct sl_reload *outcome, struct sl_followed *followed);
/* Appends a line to outcome->messages; `format` as for printf. */
void sl_reload_say(struct sl_reload *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the outcome's problems and messages to the log. */
void sl_reload_tell(const struct sl_server_options *options, const struct sl_reload *outcome);
/* Gives a policy's limits their rows in the stats; false where there is no memory. */
bool sl_policy_enter(struct sl_server *server, struct sl_shared_policy *policy);
/* Reads the policy again and has all workers use it. On the reader's thread. */
void sl_server_reload(struct sl_server *server, struct sl_reload *outcome);
/* The same, if the file's text has this digest (sl_policy_file_digest()); else nothing is done, and false returned. */
bool sl_server_reload_followed(struct sl_server *server, uint64_t text);
/* How many limits are served. Any thread. */
uint32_t sl_server_limit_count(struct sl_server *server);
/* Frees policies that were in force and that no worker uses any more. On the reader's thread, or after its end. */
void sl_policy_clear_retired(struct sl_server *server);
/* Why a policy is fixed. */
#define SL_POLICY_FIXED_TEXT "another process takes over, or the server is shutting down"
/* From now on no reload, or again; waits for workers that are changing over, never for files. */
void sl_policy_fix(struct sl_server *server, bool fixed);
bool sl_policy_is_fixed(struct sl_server *server);

#endif
