/* Threads that look up, find and release beside one that applies deltas. In version v every row of the keys is v, and each
 * second version has the key -1 besides: so a look-up that saw a part of a delta is found out. */

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check_engine_c.h"

enum { kDim = 8, kKeys = 400, kVersions = 60, kReaders = 3 };

static volatile int ended; /* read and written under `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ctrlab_table shared;

static int has_ended(void) {
  int is;
  pthread_mutex_lock(&lock);
  is = ended;
  pthread_mutex_unlock(&lock);
  return is;
}

struct piece {
  void (*body)(void*, int64_t, int64_t);
  void* context;
  int64_t begin, end, fail_in;
};

static void* run_piece(void* given) {
  const struct piece* piece = given;
  check_fail_allocation(piece->fail_in);
  piece->body(piece->context, piece->begin, piece->end);
  return NULL;
}

void check_run_in_two(void* pool, int64_t total, int64_t cycles, void (*body)(void*, int64_t, int64_t), void* context) {
  struct piece half;
  pthread_t thread;
  (void)cycles;
  half.body = body;
  half.context = context;
  half.begin = 0;
  half.end = total / 2;
  half.fail_in = pool ? *(int64_t*)pool : 0;
  EXPECT(pthread_create(&thread, NULL, run_piece, &half) == 0);
  body(context, total / 2, total);
  pthread_join(thread, NULL);
}

static const ctrlab_threads two = {sizeof two, NULL, check_run_in_two};
static char said[512]; /* of the thread that applies; the others have their own */

static int64_t version_of(ctrlab_table table) {
  ctrlab_table_figures figures = {0};
  char own[512];
  figures.struct_size = sizeof figures;
  EXPECT(ctrlab_table_read_figures(table, &figures, own, sizeof own) == CTRLAB_TABLE_OK);
  return figures.version;
}

/* All keys at one version, between those before and after the call. */
static void* reader(void* given) {
  const int64_t which = *(int64_t*)given;
  int64_t keys[kKeys + 1], i;
  float values[(kKeys + 1) * kDim];
  char own[512];
  ctrlab_table table;
  for (i = 0; i <= kKeys; ++i) keys[i] = i - 1;
  while (!has_ended()) {
    int64_t before, after;
    EXPECT(ctrlab_table_find("model", "users", &table, own, sizeof own) == CTRLAB_TABLE_OK);
    before = version_of(table);
    EXPECT(ctrlab_table_lookup(table, keys, kKeys + 1, values, (kKeys + 1) * kDim, which ? NULL : &two, own, sizeof own) == 0);
    after = version_of(table);
    EXPECT(values[kDim] >= before && values[kDim] <= after + 1);
    for (i = 0; i < (kKeys + 1) * kDim; ++i) {
      EXPECT(values[i] == (i >= kDim || (int64_t)values[kDim] % 2 ? values[kDim] : 0));
    }
    EXPECT(ctrlab_table_release(table, own, sizeof own) == CTRLAB_TABLE_OK);
  }
  return NULL;
}

/* Looks up by a handle that others release. */
static void* intruder(void* given) {
  char own[512];
  (void)given;
  while (!has_ended()) {
    const int64_t key = 5;
    float row[kDim];
    ctrlab_table table;
    int answer;
    pthread_mutex_lock(&lock);
    table = shared;
    pthread_mutex_unlock(&lock);
    answer = ctrlab_table_lookup(table, &key, 1, row, kDim, NULL, own, sizeof own);
    EXPECT(answer == CTRLAB_TABLE_OK || answer == CTRLAB_TABLE_RELEASED);
    EXPECT(answer == CTRLAB_TABLE_RELEASED || row[0] == row[kDim - 1]);
  }
  return NULL;
}

static void check(const char* folder, int64_t memory_rows) {
  const ctrlab_table_options options = {sizeof options, "model", "users", kDim, 1, memory_rows ? folder : NULL, memory_rows};
  static int64_t keys[kKeys + 1], which[kReaders];
  static float values[(kKeys + 1) * kDim];
  ctrlab_table_rows rows = {sizeof rows, keys, kKeys + 1, values, (kKeys + 1) * kDim};
  ctrlab_table_delta delta = {sizeof delta, 0, 0, {0, NULL, 0, NULL, 0}, keys, 0};
  pthread_t readers[kReaders], intruders;
  ctrlab_table table;
  int64_t i, v;
  for (i = 0; i <= kKeys; ++i) keys[i] = i - 1;
  for (i = 0; i < (kKeys + 1) * kDim; ++i) values[i] = 1;
  EXPECT(ctrlab_table_open(&options, &table, SAID) == CTRLAB_TABLE_OK);
  EXPECT(ctrlab_table_load(table, &rows, NULL, SAID) == CTRLAB_TABLE_OK);
  for (i = 0; i < kReaders; ++i) {
    which[i] = i;
    EXPECT(pthread_create(&readers[i], NULL, reader, &which[i]) == 0);
  }
  EXPECT(pthread_create(&intruders, NULL, intruder, NULL) == 0);
  for (v = 2; v <= kVersions; ++v) {
    const int64_t odd = v % 2; /* key -1 comes with odd versions and goes with even ones */
    ctrlab_table before;
    for (i = 0; i < (kKeys + 1) * kDim; ++i) values[i] = (float)v;
    delta.from_version = v - 1;
    delta.to_version = v;
    delta.rows = rows;
    delta.rows.keys = keys + !odd;
    delta.rows.count = kKeys + odd;
    delta.rows.numbers = delta.rows.count * kDim;
    delta.removed_count = !odd;
    EXPECT(ctrlab_table_apply(table, &delta, v % 3 ? NULL : &two, SAID) == CTRLAB_TABLE_OK);
    EXPECT(ctrlab_table_apply(table, &delta, NULL, SAID) == CTRLAB_TABLE_GAP);
    pthread_mutex_lock(&lock);
    before = shared;
    EXPECT(ctrlab_table_find("model", "users", &shared, SAID) == CTRLAB_TABLE_OK);
    pthread_mutex_unlock(&lock);
    if (before) EXPECT(ctrlab_table_release(before, SAID) == CTRLAB_TABLE_OK);
  }
  pthread_mutex_lock(&lock);
  ended = 1;
  pthread_mutex_unlock(&lock);
  for (i = 0; i < kReaders; ++i) pthread_join(readers[i], NULL);
  pthread_join(intruders, NULL);
  EXPECT(version_of(table) == kVersions);
  EXPECT(ctrlab_table_release(shared, SAID) == CTRLAB_TABLE_OK && ctrlab_table_release(table, SAID) == CTRLAB_TABLE_OK);
  EXPECT(ctrlab_table_find("model", "users", &table, SAID) == CTRLAB_TABLE_UNKNOWN);
}

void check_threads(const char* folder) { check(folder, 0); }

/* With room in memory for a part of the rows, the others in the storage. */
void check_threads_below(const char* folder) { check(folder, 50); }
