/* Answers requests with an exported model, in the process of any server: the C interface of libctrlab_processor.so.
 *
 *   a processor    serves the newest version in a model's folder, as `ctrlab export` writes it. It finds newer ones by itself,
 *                  tries each on its warm-up requests, and takes it where it answers; else the version before serves on
 *   updates        of a version come as files, `ctrlab train --publish` writes them. They change its weights in place, in moments
 *                  when no request runs: each answer is of one update
 *   a handle       a number, never used again. Each initialize gives one, which is released once; a call with one that is
 *                  released, or never was given, answers CTRLAB_PROCESSOR_INVALID. A version is never freed under a call
 *   threads        any number may call anything at any time. A request is worked on by the caller's thread, and where the model
 *                  is large by those of the session
 *   bytes          a request's bytes are the caller's, and are not read after the call. An answer's are the library's: give them
 *                  back by ctrlab_processor_free
 *   answers        every call returns one of ctrlab_processor_answer, and writes one sentence into `problem`, of `problem_size`
 *                  bytes, its end included; an empty one for CTRLAB_PROCESSOR_OK. `problem` may be null with a size of 0
 *   struct_size    sizeof of the struct as the caller knows it; another size than the library's is refused
 *   processes      a child that is forked must call nothing
 *   loading        link to the library, or open it with any flags. Its first call opens _ctrlab_processor.so, which lies beside
 *                  it, and TensorFlow; or answers CTRLAB_PROCESSOR_FAILED, and why it can't. A program may have its own protobuf
 *                  and gRPC: neither side sees the other's; and its own malloc, which both use. Only under a sanitizer does
 *                  TensorFlow see the program's protobuf, and crash
 *
 * A program compares ctrlab_processor_version() to CTRLAB_PROCESSOR_VERSION before anything else. */

#ifndef CTRLAB_PROCESSOR_PROCESSOR_C_H_
#define CTRLAB_PROCESSOR_PROCESSOR_C_H_

#include <stddef.h>
#include <stdint.h>

/* Goes up whenever a struct, a signature or a number in here changes. */
#define CTRLAB_PROCESSOR_VERSION 4

#ifdef __cplusplus
extern "C" {
#endif

enum ctrlab_processor_answer {
  CTRLAB_PROCESSOR_OK = 0,
  CTRLAB_PROCESSOR_INVALID = 1,     /* an argument or a request can't be; HTTP 400 */
  CTRLAB_PROCESSOR_NOT_FOUND = 2,   /* there is no such model, version or signature; HTTP 404 */
  CTRLAB_PROCESSOR_UNAVAILABLE = 3, /* not now: no memory; HTTP 503 */
  CTRLAB_PROCESSOR_FAILED = 4       /* the model could not; HTTP 500 */
};

/* What a request's bytes are, and its answer's. */
enum ctrlab_processor_format {
  CTRLAB_PROCESSOR_PREDICT = 0, /* TensorFlow Serving's PredictRequest and PredictResponse, as protocol buffers */
  CTRLAB_PROCESSOR_JSON = 1,    /* its REST interface: "inputs" get "outputs", "instances" get "predictions" */
  CTRLAB_PROCESSOR_INFER = 2,   /* the open inference protocol's ModelInferRequest and ModelInferResponse, as protocol buffers */
  CTRLAB_PROCESSOR_INFER_JSON = 3 /* its REST interface: JSON, with or without tensors as bytes behind it */
};

typedef uint64_t ctrlab_processor; /* a handle; 0 is none */

typedef struct ctrlab_processor_request {
  size_t struct_size;
  int32_t format; /* one of ctrlab_processor_format */
  const char* data;
  size_t size;
  int64_t header; /* how many bytes are JSON where tensors stand behind it; else -1 */
} ctrlab_processor_request;

/* An answer. All fields are the library's: hand it one of zeros, apart from the size. */
typedef struct ctrlab_processor_response {
  size_t struct_size;
  const char* data;
  size_t size;
  int64_t version; /* of the model that answered */
  int64_t update;  /* of the version: how many changes of its weights had come; 0: it is as it was exported */
  int64_t header;  /* as of the request */
  /* Where its time went: in reading the request, in the model and in waiting for others of its batch, in writing the answer. 0
   * where there was no such stage. */
  int64_t parse_nanos, run_nanos, write_nanos;
  void* owner; /* null: there is nothing to give back */
} ctrlab_processor_response;

uint32_t ctrlab_processor_version(void);

/* Loads the newest version in `folder`; where that can't be loaded, the one before, and so on.
 *
 * `configuration` is a JSON object, or null for {}. Every field may be left out:
 *
 *   "name"                what requests call the model, where they name one; default: the folder's name. What a label stands for
 *                         is the caller's to know
 *   "version"             one version, for good; default: the newest
 *   "intra_op_threads"    threads among which an op splits its work, in each member of the group; default 1, the caller's, and 0
 *                         for one per CPU of the member
 *   "group"               {"name": "all", "members": 2, "policy": "by_model", "cpus": ["0-3", "4-7"]}: requests run in one of its
 *                         members. Processors of a process that name one group share it; without a name it is the processor's own.
 *                         By default it has one member and all CPUs. Policies: "round_robin", the default; "by_model": a model
 *                         stays in one member; "least_in_flight": where the fewest requests are
 *   "poll_seconds"        how often the folder is looked at; default 1, and 0 for never
 *   "most_request_bytes"  default 67108864
 *   "batch_rows"          requests that come together are one call of the model, up to so many rows; default 0: none waits for
 *                         others. A model whose answer to a row depends on the others, as WDL's does, is never batched
 *   "batch_wait_micros"   for how long the first request of a batch waits for others at most; default 1000
 *   "most_slowdown"       a newer version that takes more than so many times as long as the one that serves, on the newer one's
 *                         warm-up requests, is not served; default 10, and 0 for any. Versions of other inputs are not compared */
int32_t ctrlab_processor_initialize(const char* folder, const char* configuration, ctrlab_processor* processor, char* problem,
                                    size_t problem_size);

/* Answers one request. */
int32_t ctrlab_processor_process(ctrlab_processor processor, const ctrlab_processor_request* request,
                                 ctrlab_processor_response* response, char* problem, size_t problem_size);

/* Answers `count` requests with one version, one after the other; an update may come between two. Ends with the first that is
 * refused: then no response has anything to give back, and `problem` begins with its number. */
int32_t ctrlab_processor_batch_process(ctrlab_processor processor, const ctrlab_processor_request* requests, size_t count,
                                       ctrlab_processor_response* responses, char* problem, size_t problem_size);

/* What a request holds, in place of an answer, as Apache Arrow has it in memory: for each input, in the order of `info`,
 *
 *   int64 n, then for text int32 offsets[n + 1] and the text, else n values; each of these begins at a multiple of 8 bytes
 *
 * A server logs by it what it scored. */
int32_t ctrlab_processor_parse(ctrlab_processor processor, const ctrlab_processor_request* request,
                               ctrlab_processor_response* response, char* problem, size_t problem_size);

/* The model as a JSON object: name, version, update, the step of the training that its weights are of and when they were read
 * from it (microseconds since 1970; 0 in a stock export), the longest time that an update held requests up, why no more are taken,
 * batches and the requests in them, the group's members, inputs and outputs with their types, and why newer versions are not
 * served. */
int32_t ctrlab_processor_info(ctrlab_processor processor, ctrlab_processor_response* response, char* problem,
                              size_t problem_size);

/* Gives an answer's bytes back. Does nothing where there are none. */
void ctrlab_processor_free(ctrlab_processor_response* response);

/* Calls that are running end as if it was not released. */
int32_t ctrlab_processor_release(ctrlab_processor processor, char* problem, size_t problem_size);

#ifdef __cplusplus
}
#endif

#endif /* CTRLAB_PROCESSOR_PROCESSOR_C_H_ */
