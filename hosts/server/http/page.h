/* The files of the dashboard, and the OpenAPI document, which tools/embed writes into the program when it is built. */
#ifndef SL_HTTP_PAGE_H
#define SL_HTTP_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct sl_page_file {
	const char *path; /* what it is asked by, exactly */
	const char *content_type;
	const char *etag; /* with its quotes */
	const unsigned char *bytes;
	size_t len;
};

extern const struct sl_page_file sl_page_files[];
extern const uint32_t sl_page_file_count; /* about 10 */

#endif
