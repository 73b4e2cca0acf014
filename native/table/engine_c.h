/* The engine's served tables, for C and every language that can call C: the C interface of libctrlab_engine.so.
 *
 *   a table        rows of D floats by int64 key, any of them legal; it is found by container and name, also if a SavedModel of
 *                  this process has made it. It lives as long as a handle or a session refers to it
 *   a handle       a number, never used again. Each call of find and open gives one, which is released once. A call with a handle
 *                  that was released or never given returns CTRLAB_TABLE_RELEASED. A table is never freed during a call
 *   threads        any number may call anything at any time. A call works on the caller's thread, or on those of `threads`, which
 *                  may be null. Deltas and loads of a table wait for each other; a look-up sees all of a delta or nothing
 *   processes      a forked child must call nothing: locks that its parent's other threads held are never released in it
 *   answers        every call returns one of ctrlab_table_answer, and writes one sentence into `problem`, of `problem_size`
 *                  bytes, its end included; an empty one for CTRLAB_TABLE_OK. `problem` may be null with a size of 0
 *   struct_size    sizeof of the struct as the caller knows it; another size than the library's is refused
 *
 * A program compares ctrlab_engine_version() to CTRLAB_ENGINE_VERSION before anything else. */

#ifndef CTRLAB_EMBEDDING_ENGINE_C_H_
#define CTRLAB_EMBEDDING_ENGINE_C_H_

#include <stddef.h>
#include <stdint.h>

/* Increased whenever a struct, a signature or a number in this file changes. */
#define CTRLAB_ENGINE_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

enum ctrlab_table_answer {
  CTRLAB_TABLE_OK = 0,
  CTRLAB_TABLE_INVALID = 1,  /* an argument is invalid: null, of another size, out of range */
  CTRLAB_TABLE_UNKNOWN = 2,  /* there is no table of that container and name */
  CTRLAB_TABLE_EXISTS = 3,   /* that table exists and cannot be opened again: find it */
  CTRLAB_TABLE_RELEASED = 4, /* the handle was released, or never given */
  CTRLAB_TABLE_GAP = 5,      /* the delta does not follow the version that the table has */
  CTRLAB_TABLE_FAILED = 6    /* the table failed: no memory, its storage, a repeated key, rows after a delta */
};

typedef uint64_t ctrlab_table; /* a handle; 0 is none */

/* Runs body(context, begin, end) over pieces that cover [0, total), in any order, possibly in parallel, and returns when
 * all have ended. `cycles` is the cost of one unit. */
typedef struct ctrlab_threads {
  size_t struct_size;
  void* pool; /* the first argument of `run` */
  void (*run)(void* pool, int64_t total, int64_t cycles, void (*body)(void* context, int64_t begin, int64_t end), void* context);
} ctrlab_threads;

typedef struct ctrlab_table_options {
  size_t struct_size;
  const char* container; /* may be empty */
  const char* name;      /* not empty */
  int64_t dim;           /* D, in [1, 65536) */
  int64_t version;       /* the version of the rows that will be loaded */
  const char* storage;   /* a folder of the table's own, into which rows beyond `memory_rows` sink; null: all are in memory */
  int64_t memory_rows;   /* in [1, 2^31) with `storage`, 0 without */
} ctrlab_table_options;

typedef struct ctrlab_table_rows {
  size_t struct_size;
  const int64_t* keys; /* [count], each once */
  int64_t count;
  const float* values; /* [count, D] */
  int64_t numbers;     /* count * D */
} ctrlab_table_rows;

typedef struct ctrlab_table_delta {
  size_t struct_size;
  int64_t from_version, to_version;
  ctrlab_table_rows rows; /* rows to add or replace, after the removed keys are gone */
  const int64_t* removed; /* [removed_count] */
  int64_t removed_count;
} ctrlab_table_delta;

typedef struct ctrlab_table_figures {
  size_t struct_size;
  int64_t dim;
  int64_t version;                  /* look-ups from now on see at least this version */
  int64_t rows, rows_below;         /* all rows; those of them in the storage */
  int64_t bytes;                    /* held in memory now */
  int64_t hits, hits_below, misses; /* keys looked up: in memory, in the storage, nowhere */
} ctrlab_table_figures;

/* CTRLAB_ENGINE_VERSION at the time of the library's build. */
int ctrlab_engine_version(void);

int ctrlab_table_find(const char* container, const char* name, ctrlab_table* table, char* problem, size_t problem_size);

/* Makes a new, empty table. */
int ctrlab_table_open(const ctrlab_table_options* options, ctrlab_table* table, char* problem, size_t problem_size);

/* Adds a part of the rows of the version with which the table was opened. All parts must come before the first delta. */
int ctrlab_table_load(ctrlab_table table, const ctrlab_table_rows* rows, const ctrlab_threads* threads, char* problem,
                      size_t problem_size);

/* Applies the whole delta or, if it does not return CTRLAB_TABLE_OK, nothing of it. */
int ctrlab_table_apply(ctrlab_table table, const ctrlab_table_delta* delta, const ctrlab_threads* threads, char* problem,
                       size_t problem_size);

/* keys [count] -> rows [count, D]; a key without a row reads 0. `numbers`: the floats allocated at `rows`, count * D. */
int ctrlab_table_lookup(ctrlab_table table, const int64_t* keys, int64_t count, float* rows, int64_t numbers,
                        const ctrlab_threads* threads, char* problem, size_t problem_size);

int ctrlab_table_read_figures(ctrlab_table table, ctrlab_table_figures* figures, char* problem, size_t problem_size);

/* Releases a handle. The table is freed with its last handle, when no call is using it. */
int ctrlab_table_release(ctrlab_table table, char* problem, size_t problem_size);

#ifdef __cplusplus
}
#endif

#endif /* CTRLAB_EMBEDDING_ENGINE_C_H_ */
