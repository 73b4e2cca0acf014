/* Answers requests with an exported model, in the process of any server: the C interface of libctrlab_processor.so.
 *
 *   a processor    serves the newest version in a model's folder, as `ctrlab export` writes it. It finds newer versions by itself
 *                  and tries each on its warm-up requests. If that succeeds, it serves it; otherwise it keeps the old one. A
 *                  version whose files change is another version, and is loaded again. If the version that serves is deleted,
 *                  the newest of the others takes its place; if there is none, it serves on
 *   updates        of a version are files that `ctrlab train --publish` writes. They change its weights in place, at moments when
 *                  no request runs: so each answer comes from one update
 *   a handle       a number, never used again. Each initialize gives one, which is released once. A call with a handle that was
 *                  released or never given returns CTRLAB_PROCESSOR_INVALID. A version is never freed during a call
 *   threads        any number may call anything at any time. The caller's thread processes its request; for a large model the
 *                  session's threads help
 *   bytes          a request's bytes belong to the caller, and are not read after the call. An answer's bytes belong to the
 *                  library: give them back with ctrlab_processor_free
 *   answers        every call returns one of ctrlab_processor_answer, and writes one sentence into `problem`, of `problem_size`
 *                  bytes, its end included; an empty one for CTRLAB_PROCESSOR_OK. `problem` may be null with a size of 0
 *   struct_size    sizeof of the struct as the caller knows it; another size than the library's is refused
 *   processes      a child that is forked must call nothing
 *   loading        link to the library, or open it with any flags. Its first call opens _ctrlab_processor.so, which lies beside
 *                  it, and TensorFlow; or returns CTRLAB_PROCESSOR_FAILED and the reason. A program may have its own protobuf
 *                  and gRPC: neither side sees the other's; and its own malloc, which both use. Only under a sanitizer does
 *                  TensorFlow see the program's protobuf, and crash
 *
 * A program compares ctrlab_processor_version() to CTRLAB_PROCESSOR_VERSION before anything else. */

#ifndef CTRLAB_PROCESSOR_PROCESSOR_C_H_
#define CTRLAB_PROCESSOR_PROCESSOR_C_H_

#include <stddef.h>
#include <stdint.h>

/* Increased whenever a struct, a signature or a number in this file changes. */
#define CTRLAB_PROCESSOR_VERSION 4

#ifdef __cplusplus
extern "C" {
#endif

enum ctrlab_processor_answer {
  CTRLAB_PROCESSOR_OK = 0,
  CTRLAB_PROCESSOR_INVALID = 1,     /* an argument or a request is invalid; HTTP 400 */
  CTRLAB_PROCESSOR_NOT_FOUND = 2,   /* there is no such model, version or signature; HTTP 404 */
  CTRLAB_PROCESSOR_UNAVAILABLE = 3, /* it may work later: now there is no memory; HTTP 503 */
  CTRLAB_PROCESSOR_FAILED = 4       /* the model failed; HTTP 500 */
};

/* The format of a request's bytes, and of its answer's. */
enum ctrlab_processor_format {
  CTRLAB_PROCESSOR_PREDICT = 0, /* TensorFlow Serving's PredictRequest and PredictResponse, as protocol buffers */
  CTRLAB_PROCESSOR_JSON = 1,    /* its REST interface: "inputs" get "outputs", "instances" get "predictions" */
  CTRLAB_PROCESSOR_INFER = 2,   /* the open inference protocol's ModelInferRequest and ModelInferResponse, as protocol buffers */
  CTRLAB_PROCESSOR_INFER_JSON = 3 /* its REST interface: JSON, which bytes of tensors may follow */
};

typedef uint64_t ctrlab_processor; /* a handle; 0 is none */

typedef struct ctrlab_processor_request {
  size_t struct_size;
  int32_t format; /* one of ctrlab_processor_format */
  const char* data;
  size_t size;
  int64_t header; /* the number of bytes that are JSON, if tensors follow it; otherwise -1 */
} ctrlab_processor_request;

/* An answer. The library sets all fields: pass one that is all zeros, except for the size. */
typedef struct ctrlab_processor_response {
  size_t struct_size;
  const char* data;
  size_t size;
  int64_t version; /* version of the model that answered */
  int64_t update;  /* number of updates that had changed the version's weights; 0: as exported */
  int64_t header;  /* as in the request */
  /* The time of each stage: reading the request; the model, with waiting for other requests of the batch; writing the answer. 0
   * if there was no such stage. */
  int64_t parse_nanos, run_nanos, write_nanos;
  void* owner; /* null: there is nothing to give back */
} ctrlab_processor_response;

uint32_t ctrlab_processor_version(void);

/* Loads the newest version in `folder`; if that can't be loaded, the one before it, and so on.
 *
 * `configuration` is a JSON object, or null for {}. Every field may be left out:
 *
 *   "name"                the model's name in requests that name one; default: the folder's name. The caller must know which
 *                         version a label stands for
 *   "version"             serve this version and no other; default: the newest
 *   "intra_op_threads"    threads among which an op splits its work, in each member of the group; default 1, the caller's, and 0
 *                         for one per CPU of the member
 *   "group"               {"name": "all", "members": 2, "policy": "by_model", "cpus": ["0-3", "4-7"]}: requests run in one of its
 *                         members. Processors of a process that name one group share it; without a name it is the processor's own.
 *                         By default it has one member and all CPUs. Policies: "round_robin", the default; "by_model": a model
 *                         stays in one member; "least_in_flight": where the fewest requests are
 *   "poll_seconds"        seconds between two looks at the folder; default 1, and 0 for never
 *   "most_request_bytes"  default 67108864
 *   "most_model_bytes"    a request is refused if the model would allocate more for its rows; default 1073741824. What it takes
 *                         for a row is measured on its first warm-up request; without one, it is taken for 16384
 *   "batch_rows"          requests that arrive at about the same time share one call of the model, of at most this many rows;
 *                         default 0: no request waits for others. A model whose answer for a row depends on the other rows, as
 *                         WDL's does, is never batched
 *   "batch_wait_micros"   the longest time that the first request of a batch waits for others; default 1000
 *   "ignore_unknown"      whether a request may have columns that the model does not know; default false: it is refused. `info`
 *                         names the first 100 that were left out
 *   "most_slowdown"       a newer version is not served if it takes more than this many times as long as the current one, on the
 *                         newer one's warm-up requests; default 10, and 0 for no limit. Versions with other inputs are not
 *                         compared */
int32_t ctrlab_processor_initialize(const char* folder, const char* configuration, ctrlab_processor* processor, char* problem,
                                    size_t problem_size);

/* Answers one request. */
int32_t ctrlab_processor_process(ctrlab_processor processor, const ctrlab_processor_request* request,
                                 ctrlab_processor_response* response, char* problem, size_t problem_size);

/* Answers `count` requests with one version, one after the other; an update may come between two. It stops at the first
 * request that is refused: then no response has anything to give back, and `problem` begins with that request's number. */
int32_t ctrlab_processor_batch_process(ctrlab_processor processor, const ctrlab_processor_request* requests, size_t count,
                                       ctrlab_processor_response* responses, char* problem, size_t problem_size);

/* Parses a request without answering it. The response holds its inputs in Apache Arrow's memory layout, in the order of `info`:
 *
 *   int64 n, then for text int32 offsets[n + 1] and the text, else n values; each of these begins at a multiple of 8 bytes
 *
 * A server uses it to log what it scored. */
int32_t ctrlab_processor_parse(ctrlab_processor processor, const ctrlab_processor_request* request,
                               ctrlab_processor_response* response, char* problem, size_t problem_size);

/* The model as a JSON object: name, version, the number of versions loaded so far ("loads"), whether this one is no longer in the
 * folder ("gone"), update, the training step of its weights and the time at which they were read (microseconds since 1970; 0 in a
 * stock export), the longest time that an update delayed requests, why no more updates are taken, the numbers of batches and of
 * requests in them, the group's members, inputs and outputs with their types, and why newer or changed versions are not served. */
int32_t ctrlab_processor_info(ctrlab_processor processor, ctrlab_processor_response* response, char* problem,
                              size_t problem_size);

/* Gives an answer's bytes back. Does nothing if there are none. */
void ctrlab_processor_free(ctrlab_processor_response* response);

/* Releases the handle. Calls that are running end as if it was not released. */
int32_t ctrlab_processor_release(ctrlab_processor processor, char* problem, size_t problem_size);

#ifdef __cplusplus
}
#endif

#endif /* CTRLAB_PROCESSOR_PROCESSOR_C_H_ */
