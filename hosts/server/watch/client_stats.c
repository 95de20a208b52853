/* Who asks: a small table a worker, found by comparing.
 *
 *  C1  A row's counters are written by its worker only: so moving what a forgotten name counted to the others is one
 *      thread's doing, and no sum by transport ever shrinks.
 *  C2  A row with open connections is given to nobody else: a client that holds its connection keeps its name, however
 *      many others name themselves.
 *  C3  The lock is held for comparing or copying 64 rows, and never while anything is counted. */
#include "hosts/server/watch/client_stats.h"

#include "base/assert.h"
#include "base/math.h"

#include <stdlib.h>
#include <string.h>

enum { OTHERS = SL_TRANSPORTS, NAMED = 2 * SL_TRANSPORTS, NONE = UINT32_MAX };

static uint64_t look(const _Atomic uint64_t *counter) {
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void sl_client_page_init(struct sl_client_page *page) {
	pthread_mutex_init(&page->lock, NULL);
	for (uint32_t row = 0; row < NAMED; row++)
		page->rows[row].transport = (uint8_t)(row % SL_TRANSPORTS);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool is_kept(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-._+:@/()~,", c) != NULL);
}

/* Into `most` bytes and a NUL. */
static void clean(char *to, size_t most, struct sluice_bytes text) {
	const char *from = text.data;
	size_t len = sl_min(text.len, most);
	for (size_t i = 0; i < len; i++)
		to[i] = from[i];
	for (size_t i = 0; i < len; i++)
		to[i] = is_kept(to[i]) ? to[i] : '_';
	to[len] = '\0';
}

static uint64_t decided_of(const struct sl_client_row *row) {
	uint64_t sum = 0;
	for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
		sum += look(&row->decided[verdict]);
	return sum;
}

static uint32_t find(const struct sl_client_page *page, uint32_t transport, const char *name, const char *version) {
	for (uint32_t i = NAMED; i < SL_CLIENT_ROWS; i++) {
		const struct sl_client_row *row = &page->rows[i];
		if (row->transport == transport && strcmp(row->name, name) == 0 && strcmp(row->version, version) == 0)
			return i;
	}
	return NONE;
}

/* C2. A row that a new name may have; NONE where all have connections. */
static uint32_t find_idle(const struct sl_client_page *page) {
	uint32_t best = NONE;
	uint64_t least = 0;
	for (uint32_t i = NAMED; i < SL_CLIENT_ROWS; i++) {
		const struct sl_client_row *row = &page->rows[i];
		uint64_t decided = decided_of(row);
		if (row->name[0] == '\0')
			return i;
		if (look(&row->open) == 0 && (best == NONE || decided < least)) {
			best = i;
			least = decided;
		}
	}
	return best;
}

/* C1. */
static void forget(struct sl_client_page *page, struct sl_client_row *row) {
	struct sl_client_row *others = &page->rows[OTHERS + row->transport];
	for (int verdict = 0; verdict < SL_VERDICTS; verdict++) {
		sl_count(&others->decided[verdict], look(&row->decided[verdict]));
		atomic_store_explicit(&row->decided[verdict], 0, memory_order_relaxed);
	}
}

/* The row of a name; that of all others where there is none for it. */
static uint32_t row_for(struct sl_client_page *page, uint32_t transport, const char *name, const char *version) {
	uint32_t at = find(page, transport, name, version);
	if (at != NONE)
		return at;
	at = find_idle(page);
	if (at == NONE)
		return OTHERS + transport;
	struct sl_client_row *row = &page->rows[at];
	SL_ASSERT(look(&row->open) == 0);
	if (row->name[0] != '\0')
		forget(page, row);
	row->transport = (uint8_t)transport;
	memcpy(row->name, name, strlen(name) + 1);
	memcpy(row->version, version, strlen(version) + 1);
	return at;
}

/* ---- the worker's ------------------------------------------------------------------------------------------------ */

uint32_t sl_client_stats_open(struct sl_client_page *page, enum sl_transport transport) {
	sl_count(&page->rows[transport].open, 1);
	return (uint32_t)transport + 1;
}

static struct sl_client_row *row_of(struct sl_client_page *page, uint32_t client) {
	SL_ASSERT(client >= 1 && client <= SL_CLIENT_ROWS);
	return &page->rows[client - 1];
}

uint32_t sl_client_stats_name(struct sl_client_page *page, uint32_t client, struct sluice_bytes name,
                              struct sluice_bytes version) {
	char kept_name[SL_CLIENT_NAME_MAX + 1], kept_version[SL_CLIENT_VERSION_MAX + 1];
	if (client == 0)
		return 0;
	struct sl_client_row *before = row_of(page, client);
	uint32_t at = before->transport;
	clean(kept_name, SL_CLIENT_NAME_MAX, name);
	clean(kept_version, SL_CLIENT_VERSION_MAX, version);
	pthread_mutex_lock(&page->lock);
	sl_client_stats_close(page, client); /* first: its row may be the only one that is free by it */
	if (kept_name[0] != '\0')
		at = row_for(page, before->transport, kept_name, kept_version);
	sl_count(&page->rows[at].open, 1);
	pthread_mutex_unlock(&page->lock);
	return at + 1;
}

/* A product ends with its version at a space or a comment; the version is what follows the '/'. */
uint32_t sl_client_stats_agent(struct sl_client_page *page, uint32_t client, struct sluice_bytes agent) {
	const char *text = agent.data;
	size_t end = 0, slash;
	while (end < agent.len && text[end] != ' ' && text[end] != '\t' && text[end] != '(' && text[end] != ';')
		end++;
	for (slash = 0; slash < end && text[slash] != '/';)
		slash++;
	const size_t version = slash < end ? slash + 1 : end;
	return sl_client_stats_name(page, client, (struct sluice_bytes){text, slash},
	                            (struct sluice_bytes){text == NULL ? NULL : text + version, end - version});
}

void sl_client_stats_close(struct sl_client_page *page, uint32_t client) {
	if (client == 0)
		return;
	struct sl_client_row *row = row_of(page, client);
	SL_ASSERT(look(&row->open) > 0);
	atomic_store_explicit(&row->open, look(&row->open) - 1, memory_order_relaxed);
}

void sl_client_stats_note(struct sl_client_page *page, uint32_t client, enum sl_transport transport,
                          const _Atomic uint64_t requests[SL_VERDICTS]) {
	for (int verdict = 0; client != 0 && verdict < SL_VERDICTS; verdict++) {
		uint64_t now = look(&requests[verdict]), more = now - page->noted[transport][verdict];
		if (more == 0)
			continue;
		sl_count(&row_of(page, client)->decided[verdict], more);
		page->noted[transport][verdict] = now;
	}
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum sl_client_kind kind_of(uint32_t row) {
	return row >= NAMED ? SL_CLIENT_NAMED : row >= OTHERS ? SL_CLIENT_OTHERS : SL_CLIENT_UNNAMED;
}

static void add(struct sl_client_sum *to, const struct sl_client_sum *more) {
	to->open += more->open;
	for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
		to->decided[verdict] += more->decided[verdict];
}

static uint64_t decided_in(const struct sl_client_sum *sum) {
	uint64_t decided = 0;
	for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
		decided += sum->decided[verdict];
	return decided;
}

/* Copies the rows of a page that have anything to tell. Returns how many. */
static size_t copy_page(struct sl_client_page *page, struct sl_client_sum *list) {
	size_t count = 0;
	pthread_mutex_lock(&page->lock);
	for (uint32_t i = 0; i < SL_CLIENT_ROWS; i++) {
		const struct sl_client_row *row = &page->rows[i];
		struct sl_client_sum *sum = &list[count];
		*sum = (struct sl_client_sum){.transport = row->transport, .kind = kind_of(i), .open = look(&row->open)};
		memcpy(sum->name, row->name, sizeof row->name);
		memcpy(sum->version, row->version, sizeof row->version);
		for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
			sum->decided[verdict] = look(&row->decided[verdict]);
		count += sum->open != 0 || decided_in(sum) != 0;
	}
	pthread_mutex_unlock(&page->lock);
	return count;
}

static int compare_names(const void *left, const void *right) {
	const struct sl_client_sum *a = left, *b = right;
	int order = (int)a->transport - (int)b->transport;
	order = order != 0 ? order : (int)a->kind - (int)b->kind;
	order = order != 0 ? order : strcmp(a->name, b->name);
	return order != 0 ? order : strcmp(a->version, b->version);
}

/* Unnamed clients and others before all, so that none of them is cut off; the rest by decisions, by connections. */
static int compare_rank(const void *left, const void *right) {
	const struct sl_client_sum *a = left, *b = right;
	const bool a_named = a->kind == SL_CLIENT_NAMED, b_named = b->kind == SL_CLIENT_NAMED;
	const uint64_t a_decided = decided_in(a), b_decided = decided_in(b);
	if (a_named != b_named)
		return a_named - b_named;
	if (a_decided != b_decided)
		return a_decided < b_decided ? 1 : -1;
	if (a->open != b->open)
		return a->open < b->open ? 1 : -1;
	return compare_names(left, right);
}

/* Joins what is of one name. Returns how many are left. */
static size_t merge(struct sl_client_sum *list, size_t count) {
	size_t kept = 0;
	qsort(list, count, sizeof *list, compare_names);
	for (size_t i = 0; i < count; i++) {
		if (kept != 0 && compare_names(&list[kept - 1], &list[i]) == 0)
			add(&list[kept - 1], &list[i]);
		else
			list[kept++] = list[i];
	}
	return kept;
}

/* Names that are not told are others. Returns how many are left. */
static size_t cut(struct sl_client_sum *list, size_t count) {
	qsort(list, count, sizeof *list, compare_rank);
	const size_t told = SL_CLIENTS_TOLD_MAX - SL_TRANSPORTS; /* each transport may get its others by this */
	if (count <= told)
		return count;
	for (size_t i = told; i < count; i++) {
		list[i].kind = SL_CLIENT_OTHERS;
		list[i].name[0] = list[i].version[0] = '\0';
	}
	return merge(list, count);
}

uint32_t sl_client_stats_sums(struct sl_client_page *const *pages, uint32_t page_count,
                              struct sl_client_sum sums[SL_CLIENTS_TOLD_MAX]) {
	struct sl_client_sum *list = calloc((size_t)page_count * SL_CLIENT_ROWS + 1, sizeof *list);
	size_t count = 0;
	if (list == NULL)
		return 0;
	for (uint32_t i = 0; i < page_count; i++)
		count += copy_page(pages[i], list + count);
	count = cut(list, merge(list, count));
	SL_ASSERT(count <= SL_CLIENTS_TOLD_MAX);
	qsort(list, count, sizeof *list, compare_rank);
	memcpy(sums, list, count * sizeof *list);
	free(list);
	return (uint32_t)count;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

enum { OTHER_LIBRARY = SL_CLIENT_LIBRARIES - 2, UNNAMED_LIBRARY };

const char *const sl_client_libraries[SL_CLIENT_LIBRARIES] = {
	"sluice-node", "sluice-python", "redis-py", "valkey-py", "ioredis", "node-redis", "jedis",
	"lettuce",     "redisson",      "go-redis", "redis-rs",  "SE.Redis", "other",     "unnamed",
};

uint32_t sl_client_library(const struct sl_client_sum *sum) {
	const size_t len = strcspn(sum->name, "(");
	if (sum->kind == SL_CLIENT_UNNAMED)
		return UNNAMED_LIBRARY;
	for (uint32_t i = 0; sum->kind == SL_CLIENT_NAMED && i < OTHER_LIBRARY; i++)
		if (strlen(sl_client_libraries[i]) == len && memcmp(sl_client_libraries[i], sum->name, len) == 0)
			return i;
	return OTHER_LIBRARY;
}
