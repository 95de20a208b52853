#include "hosts/server/watch/denials.h"
struct sl_denials *sl_denials_open(const struct sl_log_settings *settings) {
	(void)settings;
	return NULL;
}

void sl_denials_close(struct sl_denials *denials) {
	(void)denials;
}
