/* The common declarations of the source files of check_engine_c. */

#ifndef CTRLAB_CHECK_CHECK_ENGINE_C_H_
#define CTRLAB_CHECK_CHECK_ENGINE_C_H_

#include "table/engine_c.h"

#ifdef __cplusplus
extern "C" {
#endif

void check_fail_allocation(int64_t in); /* this many of this thread's allocations from now on, one fails; 0: none */
/* A ctrlab_threads::run that does half of the work on another thread. `pool`, if not null, says which allocation there fails. */
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
