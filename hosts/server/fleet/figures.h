/* Moved: what a front counts stands with the other books. */
#include "hosts/server/watch/fleet_figures.h"
