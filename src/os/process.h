/* Who is alive, told by the kernel: locks on bytes of a shared file that vanish with the process that holds them. */
#ifndef SL_PROCESS_H
#define SL_PROCESS_H

#include "sluice.h"

/* Takes the guard of a file: one process at a time opens, formats and repairs. Waits for it at most `wait_ns`. Returns
 * 0, EAGAIN when others kept it for so long, or another errno (the filesystem has no locks). Async-signal-safe. */
int sl_guard_take(int fd, sluice_ns wait_ns);
void sl_guard_release(int fd);

/* Takes the lock of a row (1..255) for this process, for as long as it lives or has the file open. Returns 0, EAGAIN
 * when another process has it, or another errno. Async-signal-safe. */
int sl_row_take(int fd, uint32_t row);

/* Whether another process holds the lock of a row. True also when the kernel can't say: nobody is declared dead on
 * less than its word. About 0.3 us. */
bool sl_row_is_held(int fd, uint32_t row);

/* Whether another process holds the lock of any row; `held` also where the kernel can't say. 0 or an errno. */
SLUICE_MUST_USE int sl_any_row_is_held(int fd, bool *held);

#endif
