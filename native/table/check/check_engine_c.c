/* The engine's C interface, called from C: what it answers, what it refuses, and many threads at once.
 *
 *   check_engine_c WHAT FOLDER     WHAT is one of `checks`; prints "passed" */

#include "check_engine_c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kDim = 4, kKeys = 3000 };

static char said[512];
static ctrlab_table_options options;
static ctrlab_table_rows rows;
static ctrlab_table_delta delta;
static ctrlab_table_figures figures;

void fail(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: %s\n  said: %s\n", file, line, what, said);
  exit(1);
}

/* A part of `count` keys from `first` on, each row filled with `value`. */
static ctrlab_table_rows part(int64_t first, int64_t count, float value) {
  static int64_t keys[kKeys];
  static float values[kKeys * kDim];
  ctrlab_table_rows made = {sizeof made, keys, 0, values, 0};
  int64_t i;
  for (i = 0; i < count; ++i) keys[i] = first + i;
  for (i = 0; i < count * kDim; ++i) values[i] = value;
  made.count = count;
  made.numbers = count * kDim;
  return made;
}

static void reset(void) {
  ctrlab_table_options new_options = {sizeof new_options, "model", "users", kDim, 7, NULL, 0};
  ctrlab_table_delta new_delta = {sizeof new_delta, 7, 8, {0, NULL, 0, NULL, 0}, NULL, 0};
  options = new_options;
  rows = part(0, 10, 1);
  delta = new_delta;
  delta.rows = part(0, 0, 0);
  figures.struct_size = sizeof figures;
  memset(said, 'x', sizeof said);
}

static ctrlab_table opened(void) {
  ctrlab_table table = 0;
  EXPECT(ctrlab_table_open(&options, &table, SAID) == CTRLAB_TABLE_OK && table != 0 && said[0] == 0);
  return table;
}

static float read_one(ctrlab_table table, int64_t key) {
  float row[kDim];
  int i;
  EXPECT(ctrlab_table_lookup(table, &key, 1, row, kDim, NULL, SAID) == CTRLAB_TABLE_OK);
  for (i = 1; i < kDim; ++i) EXPECT(row[i] == row[0]);
  return row[0];
}

static void is_gone(void) {
  ctrlab_table found = 1;
  EXPECT(ctrlab_table_find("model", "users", &found, SAID) == CTRLAB_TABLE_UNKNOWN && found == 0);
  EXPECT(strcmp(said, "There is no served table users in container 'model': open it, or load the model that has it.") == 0);
}

static void calls(const char* folder) {
  const int64_t removed[] = {3, 99, 3};
  ctrlab_table table, again;
  (void)folder;
  EXPECT(ctrlab_engine_version() == CTRLAB_ENGINE_VERSION);
  is_gone();
  table = opened();
  EXPECT(ctrlab_table_open(&options, &again, SAID) == CTRLAB_TABLE_EXISTS && again == 0);
  EXPECT(ctrlab_table_find("model", "users", &again, SAID) == CTRLAB_TABLE_OK && again != table);
  EXPECT(ctrlab_table_load(table, &rows, NULL, SAID) == CTRLAB_TABLE_OK);
  rows = part(INT64_MIN, 5, 2);
  EXPECT(ctrlab_table_load(again, &rows, NULL, SAID) == CTRLAB_TABLE_OK);
  EXPECT(read_one(table, 9) == 1 && read_one(again, INT64_MIN + 4) == 2 && read_one(table, 10) == 0);
  EXPECT(ctrlab_table_read_figures(table, &figures, SAID) == CTRLAB_TABLE_OK);
  EXPECT(figures.dim == kDim && figures.version == 7 && figures.rows == 15 && figures.rows_below == 0);
  EXPECT(figures.hits == 2 && figures.misses == 1 && figures.hits_below == 0 && figures.bytes > 15 * kDim * 4);

  delta.rows = part(2, 1, 5);
  delta.removed = removed;
  delta.removed_count = 3;
  EXPECT(ctrlab_table_apply(again, &delta, NULL, SAID) == CTRLAB_TABLE_OK);
  EXPECT(read_one(table, 2) == 5 && read_one(table, 3) == 0 && read_one(table, 4) == 1);
  EXPECT(ctrlab_table_read_figures(table, &figures, SAID) == CTRLAB_TABLE_OK && figures.version == 8 && figures.rows == 14);

  EXPECT(ctrlab_table_release(table, SAID) == CTRLAB_TABLE_OK && read_one(again, 2) == 5);
  EXPECT(ctrlab_table_release(table, SAID) == CTRLAB_TABLE_RELEASED);
  EXPECT(ctrlab_table_read_figures(table, &figures, SAID) == CTRLAB_TABLE_RELEASED);
  EXPECT(ctrlab_table_release(again, SAID) == CTRLAB_TABLE_OK);
  is_gone();
  table = opened();
  EXPECT(table != again && read_one(table, 2) == 0);
  EXPECT(ctrlab_table_release(table, SAID) == CTRLAB_TABLE_OK);
}

/* What cannot be is refused in one sentence, and nothing has changed. */
#define REFUSES(code, call)                                                                           \
  do {                                                                                                \
    EXPECT((call) == (code));                                                                         \
    EXPECT(said[0] >= 'A' && said[0] <= 'Z' && said[strlen(said) - 1] == '.' && !strchr(said, '\n')); \
    reset();                                                                                          \
  } while (0)

static void refusals(const char* folder) {
  ctrlab_threads none = {sizeof none, NULL, NULL};
  int64_t keys[3] = {1, 2, 1};
  float values[3 * kDim] = {0};
  char tiny[8];
  ctrlab_table table, other;
  (void)folder;
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_open(NULL, &other, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_open(&options, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, (options.struct_size -= 8, ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.container = NULL, ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.name = NULL, ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.name = "", ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.dim = 0, ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.dim = 65536, ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.memory_rows = 1, ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (options.storage = "x", ctrlab_table_open(&options, &other, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_find(NULL, "users", &other, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_find("model", "users", NULL, SAID));
  REFUSES(CTRLAB_TABLE_RELEASED, ctrlab_table_lookup(0, keys, 1, values, kDim, NULL, SAID));
  is_gone();

  table = opened();
  EXPECT(ctrlab_table_load(table, &rows, NULL, SAID) == CTRLAB_TABLE_OK);
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_load(table, NULL, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, (rows.struct_size = 0, ctrlab_table_load(table, &rows, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (rows.keys = NULL, ctrlab_table_load(table, &rows, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (rows.values = NULL, ctrlab_table_load(table, &rows, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (rows.count = -1, ctrlab_table_load(table, &rows, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (rows.numbers -= 1, ctrlab_table_load(table, &rows, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_load(table, &rows, &none, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, (none.struct_size = 1, ctrlab_table_load(table, &rows, &none, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_lookup(table, NULL, 1, values, kDim, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_lookup(table, keys, 1, NULL, kDim, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_lookup(table, keys, 3, values, kDim, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_lookup(table, keys, INT64_MAX, values, -kDim, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID,
          ctrlab_table_lookup(table, keys, (int64_t)1 << 31, values, kDim * ((int64_t)1 << 31), NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_read_figures(table, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, (figures.struct_size = 0, ctrlab_table_read_figures(table, &figures, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, ctrlab_table_apply(table, NULL, NULL, SAID));
  REFUSES(CTRLAB_TABLE_INVALID, (delta.struct_size = 0, ctrlab_table_apply(table, &delta, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (delta.rows.struct_size = 0, ctrlab_table_apply(table, &delta, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (delta.removed_count = 2, ctrlab_table_apply(table, &delta, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_GAP, (delta.from_version = 6, ctrlab_table_apply(table, &delta, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_GAP, (delta.from_version = 8, delta.to_version = 9, ctrlab_table_apply(table, &delta, NULL, SAID)));
  REFUSES(CTRLAB_TABLE_INVALID, (delta.to_version = 7, ctrlab_table_apply(table, &delta, NULL, SAID)));
  delta.removed = keys;
  delta.removed_count = 2;
  delta.rows.keys = keys;
  delta.rows.values = values;
  delta.rows.count = 3;
  delta.rows.numbers = 3 * kDim;
  REFUSES(CTRLAB_TABLE_FAILED, ctrlab_table_apply(table, &delta, NULL, SAID)); /* key 1 comes twice */
  EXPECT(ctrlab_table_read_figures(table, &figures, SAID) == CTRLAB_TABLE_OK && figures.version == 7 && figures.rows == 10);
  EXPECT(read_one(table, 1) == 1 && read_one(table, 2) == 1);

  EXPECT(ctrlab_table_apply(table, &delta, NULL, SAID) == CTRLAB_TABLE_OK); /* an empty one */
  REFUSES(CTRLAB_TABLE_FAILED, ctrlab_table_load(table, &rows, NULL, SAID));
  REFUSES(CTRLAB_TABLE_GAP, ctrlab_table_apply(table, &delta, NULL, SAID)); /* the same again */
  EXPECT(ctrlab_table_lookup(table, NULL, 0, NULL, 0, NULL, NULL, 0) == CTRLAB_TABLE_OK);
  EXPECT(ctrlab_table_lookup(table, keys, 3, values, 0, NULL, NULL, 0) == CTRLAB_TABLE_INVALID);
  EXPECT(ctrlab_table_release(table, SAID) == CTRLAB_TABLE_OK);
  EXPECT(ctrlab_table_release(table, tiny, sizeof tiny) == CTRLAB_TABLE_RELEASED && strcmp(tiny, "A table") == 0);
}

/* Rows of which most are in the storage, read, replaced and removed there. */
static void storage(const char* folder) {
  int64_t removed[kKeys], i;
  ctrlab_table table;
  options.storage = folder;
  options.memory_rows = 100;
  table = opened();
  for (i = 0; i < 3; ++i) {
    rows = part(i * kKeys, kKeys, (float)(i + 1));
    EXPECT(ctrlab_table_load(table, &rows, NULL, SAID) == CTRLAB_TABLE_OK);
  }
  EXPECT(ctrlab_table_read_figures(table, &figures, SAID) == CTRLAB_TABLE_OK);
  EXPECT(figures.rows == 3 * kKeys && figures.rows_below >= 3 * kKeys - 100);
  delta.rows = part(kKeys, 1000, 9);
  delta.removed = removed;
  delta.removed_count = 500;
  for (i = 0; i < 500; ++i) removed[i] = 2 * kKeys + i;
  EXPECT(ctrlab_table_apply(table, &delta, NULL, SAID) == CTRLAB_TABLE_OK);
  for (i = -1; i <= 3 * kKeys; i += 7) {
    const float expected = i < 0 || i >= 3 * kKeys ? 0
                           : i < kKeys             ? 1
                           : i < kKeys + 1000      ? 9
                           : i < 2 * kKeys         ? 2
                           : i < 2 * kKeys + 500   ? 0
                                                   : 3;
    EXPECT(read_one(table, i) == expected);
  }
  EXPECT(ctrlab_table_release(table, SAID) == CTRLAB_TABLE_OK);
}

/* Each allocation of each call fails once, in the caller's thread and in one of the pool. */
static int one_of(int call, ctrlab_table* table, const ctrlab_threads* threads) {
  static float values[10 * kDim];
  if (call == 0) return ctrlab_table_open(&options, table, SAID);
  if (call == 1) return ctrlab_table_load(*table, &rows, threads, SAID);
  if (call == 2) return ctrlab_table_lookup(*table, rows.keys, 10, values, 10 * kDim, threads, SAID);
  if (call == 3) return ctrlab_table_apply(*table, &delta, threads, SAID);
  return ctrlab_table_find("model", "users", table, SAID);
}

static void memory(const char* folder) {
  int64_t in_pool = 0, failures = 0, n;
  ctrlab_threads threads = {sizeof threads, NULL, check_run_in_two};
  int call, pool, answer;
  (void)folder;
  threads.pool = &in_pool;
  for (pool = 0; pool < 2; ++pool) {
    ctrlab_table table = 0, first = 0;
    reset();
    for (call = 0; call < 5; ++call) {
      for (n = 1, answer = CTRLAB_TABLE_FAILED; answer != CTRLAB_TABLE_OK; ++n) {
        if (pool) in_pool = n;
        else check_fail_allocation(n);
        answer = one_of(call, &table, &threads);
        check_fail_allocation(0);
        failures += answer != CTRLAB_TABLE_OK;
        EXPECT(n < 10000 && (answer == CTRLAB_TABLE_OK || (answer == CTRLAB_TABLE_FAILED && said[strlen(said) - 1] == '.')));
      }
      if (call == 0) first = table;
    }
    in_pool = 0;
    EXPECT(read_one(table, 9) == 1);
    EXPECT(ctrlab_table_release(table, SAID) == CTRLAB_TABLE_OK && ctrlab_table_release(first, SAID) == CTRLAB_TABLE_OK);
    is_gone();
  }
  EXPECT(failures > 40);
}

static const struct {
  const char* name;
  void (*run)(const char* folder);
} checks[] = {{"calls", calls},   {"refusals", refusals},     {"storage", storage},
              {"memory", memory}, {"threads", check_threads}, {"threads_below", check_threads_below}};

int main(int argc, char** argv) {
  size_t i;
  for (i = 0; argc == 3 && i < sizeof checks / sizeof *checks; ++i) {
    if (strcmp(argv[1], checks[i].name) != 0) continue;
    reset();
    checks[i].run(argv[2]);
    puts("passed");
    return 0;
  }
  return 2;
}
