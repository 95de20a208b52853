/* What an operator is told beside an error of a node. */
#ifndef SL_ADVICE_H
#define SL_ADVICE_H

#include "base/bytes.h"

/* What to do about an error of a node, by how it begins; NULL: nothing. */
const char *sl_advice_for(struct sluice_bytes error);

#endif
