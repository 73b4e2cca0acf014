/* What the parts of check_engine_c share. */

#ifndef CTRLAB_CHECK_CHECK_ENGINE_C_H_
#define CTRLAB_CHECK_CHECK_ENGINE_C_H_

#include "table/engine_c.h"

#ifdef __cplusplus
extern "C" {
#endif

void check_fail_allocation(int64_t in); /* of this thread's allocations, how many until one fails; 0: none does */
/* A ctrlab_threads::run: half on another thread, of whose allocations the one fails that `pool` counts, if it is not null. */
void check_run_in_two(void* pool, int64_t total, int64_t cycles, void (*body)(void*, int64_t, int64_t), void* context);
void check_threads(const char* folder);
void check_threads_below(const char* folder);
void fail(const char* file, int line, const char* what);

#ifdef __cplusplus
}
#endif

#define EXPECT(what)                              \
  do {                                            \
    if (!(what)) fail(__FILE__, __LINE__, #what); \
  } while (0)
#define SAID said, sizeof said

#endif /* CTRLAB_CHECK_CHECK_ENGINE_C_H_ */
