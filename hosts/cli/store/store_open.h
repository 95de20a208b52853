/* Stores by the names that a command line gives them: FILE, or shared:NAME. */
#ifndef SL_CLI_STORE_OPEN_H
#define SL_CLI_STORE_OPEN_H

#include "hosts/cli/cli.h"
#include "store/store.h"

#define SL_STORE_SHARED "shared:"

/* Whether a name means shared memory. A file of such a name is written ./shared:NAME. */
bool sl_store_name_is_shared(const char *name);

/* Opens a store that exists. NULL after saying why it can't be. Close it with sluice_store_close(). */
struct sluice_store *sl_store_open_existing(const struct sl_verb *verb, const char *name);

/* Makes a store and closes it. SL_EXIT_FINE, or SL_EXIT_FAILED after saying why.
 *  bytes, percent  0 for what the library chooses */
int sl_store_create(const struct sl_verb *verb, const char *name, uint64_t bytes, uint32_t percent);

/* SL_GO_ON where this process alone has the store open, else SL_EXIT_FAILED after saying who has.
 *  what  can't be done then: "resize it" */
int sl_store_be_alone(const struct sl_verb *verb, const char *name, const struct sluice_store *store, const char *what);

/* Writes a size for people: "64 MiB", "1.5 GiB", "512 bytes". Returns `text`, of SL_SIZE_TEXT_MAX bytes. */
enum { SL_SIZE_TEXT_MAX = 48 };
const char *sl_cli_bytes(char text[SL_SIZE_TEXT_MAX], uint64_t bytes);

#endif
