/* Tickets: ids that say what they are of, so that whoever has one can release, renew or commit it without saying the
 * limits again, at any door of any host.
 *
 *   ticket  = 16 hex digits "." base64url of the packed items, without padding
 *   packed  = version u8 (1) | item *
 *   item    = flags u8 | [ len u16 | key ] | [ len u8 | name ] | len u8 | limit
 *   flags   = 1: a key of its own, 2: a name, 4: it is the last
 *
 * Lengths are little-endian. A key that equals the one that goes with the ticket is left out; `limit` is canonical
 * text, `name` that of a limit of a policy. A ticket is no secret and proves nothing: what is done by it is done to
 * what the digits before the dot name, 64 random bits, and to nothing else. */
#ifndef SL_TICKET_H
#define SL_TICKET_H

#include "base/bytes.h"

enum {
	SL_TICKET_ID_DIGITS = 16,
	/* of a ticket of SLUICE_ITEMS_MAX items with the longest keys, names and limits, with its NUL */
	SL_TICKET_BYTES_MAX = 26 * 1024,
};

/* What a ticket says. Points into the memory that it was read into. */
struct sl_ticket {
	struct sluice_bytes id; /* the 16 hex digits, in the text that was read */
	uint32_t count;
	struct sluice_limit limits[SLUICE_ITEMS_MAX]; /* named where they were */
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_bytes names[SLUICE_ITEMS_MAX]; /* len 0: given in notation */
};

/* Writes a ticket, NUL-ended. `key` is the one that will be said with it, data NULL where none will, and all keys are
 * written, none longer than SLUICE_KEY_BYTES_MAX; names[i] is NULL for a limit in notation, `names` where all are. What
 * can't be released or committed is left out: unlimited, distinct, what is only tried. Returns its length. Some 100 ns
 * an item. */
size_t sl_ticket_write(char text[SL_TICKET_BYTES_MAX], uint64_t id, struct sluice_bytes key,
                       const struct sluice_item *items, const char *const *names, uint32_t count);

/* Is a text a ticket, by its form: 16 hex digits and a dot? */
bool sl_ticket_is(struct sluice_bytes text);

/* Reads a ticket; `memory` (SL_TICKET_BYTES_MAX bytes) holds what it points to. False for bytes that are none:
 * anybody may send them. */
SLUICE_MUST_USE bool sl_ticket_read(struct sl_ticket *ticket, struct sluice_bytes text, struct sluice_bytes key,
                                    void *memory);

#endif
