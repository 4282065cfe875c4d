/* colibri.h: the C API of Colibri, an inference engine for mixture-of-experts language models.
 *
 * C99, self-contained, the only ABI of the library. Handles are opaque; option structs begin with their size, so that a
 * program built against an older header keeps working; nothing is global; the library never prints and never exits.
 *
 * Errors: functions that can fail return a colibri_status and fill the colibri_error out parameter (which may be NULL)
 * with one line: what, which file, the numbers, what to do next. Strings: UTF-8 with an explicit size, also
 * NUL-terminated. Memory that the library hands out is freed with the function named beside it. Thread-safety: a
 * colibri_engine and a colibri_text may be used from several threads. A colibri_sequence belongs to one thread at a
 * time, but colibri_cancel may be called from any thread (and from a signal handler).
 */
#ifndef COLIBRI_COLIBRI_H_
#define COLIBRI_COLIBRI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define COLIBRI_API __declspec(dllexport)
#else
#define COLIBRI_API __attribute__((visibility("default")))
#endif

/* ---- version and errors ----------------------------------------------------------------------------------------- */

#define COLIBRI_VERSION_MAJOR 0
#define COLIBRI_VERSION_MINOR 1
#define COLIBRI_VERSION_PATCH 0

/* "0.1.0". */
COLIBRI_API const char* colibri_version(void);

typedef enum colibri_status {
  COLIBRI_OK = 0,
  COLIBRI_FAILED = 1,           /* failed while running */
  COLIBRI_USAGE = 2,            /* arguments that make no sense */
  COLIBRI_INVALID_MODEL = 3,    /* model path missing, unreadable, damaged */
  COLIBRI_DOES_NOT_FIT = 4,     /* not enough memory or disk */
  COLIBRI_IO = 5,               /* input/output failure after opening */
  COLIBRI_CANCELLED = 6,        /* by colibri_cancel or by a callback */
  COLIBRI_CONTEXT_OVERFLOW = 7, /* the prompt is longer than the context */
  COLIBRI_UNSUPPORTED = 8       /* a family, quantisation or feature that this version does not have */
} colibri_status;

/* "COLIBRI_OK" ...; "unknown" for other numbers. */
COLIBRI_API const char* colibri_status_name(colibri_status status);
/* The exit status that a program should end with: 0 to 5; 130 for COLIBRI_CANCELLED, 2 for COLIBRI_CONTEXT_OVERFLOW, 3
 * for COLIBRI_UNSUPPORTED. */
COLIBRI_API int colibri_exit_code(colibri_status status);

typedef struct colibri_error {
  colibri_status code;
  char message[1020]; /* NUL-terminated, cut at a character when longer */
} colibri_error;

/* A string that the library allocated. */
typedef struct colibri_string {
  char* data;  /* NUL-terminated; NULL when empty and never filled */
  size_t size; /* without the NUL */
} colibri_string;
COLIBRI_API void colibri_string_free(colibri_string* string);

/* Token ids that the library allocated. */
typedef struct colibri_ids {
  int32_t* data;
  size_t size;
} colibri_ids;
COLIBRI_API void colibri_ids_free(colibri_ids* ids);

/* ---- settings --------------------------------------------------------------------------------------------------- */

/* One row of the settings table: the flag, the environment variable, the config key and the documentation follow from
 * it. */
typedef struct colibri_setting_info {
  const char* key;           /* "prefill_chunk" */
  const char* type;          /* "integer", "bytes", "choice", "number", "path", "boolean" */
  const char* default_value; /* "auto" */
  const char* range;         /* for people and for error messages: "1 to 65536, or auto" */
  const char* help;
} colibri_setting_info;

COLIBRI_API size_t colibri_setting_count(void);
COLIBRI_API const colibri_setting_info* colibri_setting_at(size_t index); /* NULL beyond the end */
/* COLIBRI_USAGE when the key is unknown (the message names the nearest one) or the value is out of range. */
COLIBRI_API colibri_status colibri_setting_check(const char* key, const char* value, colibri_error* error);

typedef struct colibri_setting {
  const char* key;
  const char* value;
} colibri_setting;

/* ---- text: tokenizer and chat template -------------------------------------------------------------------------- */

typedef struct colibri_text colibri_text;

/* Opens the tokenizer (and the chat template, if there is one) of a model, of a folder with tokenizer.json, or of a
 * tokenizer.json file itself. Reads no weights. `template_file` NULL, or a bare Jinja file that replaces the model's;
 * with a template file, `path` may be NULL and only colibri_apply_template works. */
COLIBRI_API colibri_status colibri_text_open(const char* path, const char* template_file, colibri_text** out,
                                             colibri_error* error);
COLIBRI_API void colibri_text_close(colibri_text* text);

enum {
  COLIBRI_ADD_SPECIAL = 1,   /* BOS etc., as the tokenizer's post-processor says */
  COLIBRI_PARSE_SPECIAL = 2, /* special tokens written in the text become their ids */
  COLIBRI_SKIP_SPECIAL = 4   /* detokenize: leave special tokens out */
};
COLIBRI_API colibri_status colibri_tokenize(const colibri_text* text, const char* utf8, size_t size, uint32_t flags,
                                            colibri_ids* out, colibri_error* error);
COLIBRI_API colibri_status colibri_detokenize(const colibri_text* text, const int32_t* ids, size_t n, uint32_t flags,
                                              colibri_string* out, colibri_error* error);
/* The bytes that one token stands for in the middle of a text; they may be a part of a character. For a special token
 * its name. COLIBRI_USAGE for an id outside the vocabulary. */
COLIBRI_API colibri_status colibri_token_bytes(const colibri_text* text, int32_t id, colibri_string* out,
                                               colibri_error* error);
/* `request_json`: {"messages": [...], "tools": [...], "add_generation_prompt": true, "chat_template_kwargs": {...}, and
 * any other variable of the template}. `now`: "2026-02-03T04:05:06", or NULL for the present. */
COLIBRI_API colibri_status colibri_apply_template(const colibri_text* text, const char* request_json, size_t size,
                                                  const char* now, colibri_string* out, colibri_error* error);

/* ---- answers of chat models -------------------------------------------------------------------------------------- */

/* Reads the answer to one chat request: what is reasoning, what is text, what are tool calls. Each family writes these
 * in a form of its own, which follows from its template. A colibri_answer belongs to one thread at a time. */
typedef struct colibri_answer colibri_answer;

/* `request_json`: what colibri_apply_template took, and beside it "tool_choice", "parallel_tool_calls" and
 * "response_format" in OpenAI's form, and "answer_id", a text that is another one for every answer: the ids of calls
 * that the model does not write itself follow from it, or without it from the prompt. `prompt`: what
 * colibri_apply_template gave (it may end inside the reasoning). COLIBRI_USAGE when the request asks for what this
 * model's form cannot say; the message names the member. The answer borrows `text`. */
COLIBRI_API colibri_status colibri_answer_open(const colibri_text* text, const char* request_json, size_t size,
                                               const char* prompt, size_t prompt_size, colibri_answer** out,
                                               colibri_error* error);
COLIBRI_API void colibri_answer_free(colibri_answer* answer);
/* Special tokens that the form is made of: for colibri_request.kept_special. */
COLIBRI_API colibri_status colibri_answer_kept_special(const colibri_answer* answer, colibri_ids* out,
                                                       colibri_error* error);
/* What the answer must look like, for colibri_request.constraint; empty when it is free. */
COLIBRI_API colibri_status colibri_answer_constraint(const colibri_answer* answer, colibri_string* out,
                                                     colibri_error* error);
/* Feeds text as the sequence's events bring it, cut anywhere. `deltas`: a JSON array, in order, of
 *   {"reasoning": TEXT}, {"content": TEXT}, {"tool_call": {"index": I, "id": ID, "name": NAME, "arguments": ""}} where
 * a call begins, and {"tool_call": {"index": I, "arguments": TEXT}} as its arguments (JSON text) arrive. Whatever is no
 * valid call is given as content, never dropped. */
COLIBRI_API colibri_status colibri_answer_push(colibri_answer* answer, const char* utf8, size_t size,
                                               colibri_string* deltas, colibri_error* error);
/* The end of the text: what was still held back. */
COLIBRI_API colibri_status colibri_answer_finish(colibri_answer* answer, colibri_string* deltas, colibri_error* error);

/* ---- reports that load nothing ---------------------------------------------------------------------------------- */

/* JSON about a model: family, shape, quantisation, tokenizer, files; with `tensors` nonzero every tensor. */
COLIBRI_API colibri_status colibri_inspect(const char* path, int tensors, colibri_string* json, colibri_error* error);
/* Reads every tensor: all there, right shape, finite; files whole. With `tokenizer_only` nonzero: vocabulary and
 * template. `json`: {"ok", "checked": {...}, "problems": [{"what", "file", "tensor"}]}, filled whenever the files could
 * be opened. COLIBRI_INVALID_MODEL when a problem was found. */
COLIBRI_API colibri_status colibri_validate(const char* path, int tokenizer_only, colibri_string* json,
                                            colibri_error* error);

/* JSON about this machine: CPU and its instruction sets, cores, memory, huge pages, limits, and what to change
 * ("advice", a list of lines). `path`: a model, file or folder whose disk is measured, which takes about two seconds;
 * NULL or "": none. */
COLIBRI_API colibri_status colibri_doctor(const char* path, colibri_string* json, colibri_error* error);

/* Checks every kernel of every instruction set of this CPU against the scalar code and times it. `what`: "kernels" or
 * "router". `json`: [{"isa", "operation", "encoding", "equal", "nanoseconds", "gflops"}]. COLIBRI_FAILED on a mismatch.
 */
COLIBRI_API colibri_status colibri_self_test(const char* what, colibri_string* json, colibri_error* error);

/* ---- the router alone -------------------------------------------------------------------------------------------- */

/* How a logit becomes a score, and whether the chosen scores are divided by their sum. */
typedef enum colibri_router_kind {
  COLIBRI_ROUTER_SOFTMAX_RENORMALISED = 0, /* Mixtral, Qwen3; equals the softmax over the chosen logits (gpt-oss) */
  COLIBRI_ROUTER_SOFTMAX = 1,              /* softmax over all experts: OLMoE, Qwen2-MoE */
  COLIBRI_ROUTER_SIGMOID_RENORMALISED = 2, /* DeepSeek-V3, GLM, Kimi, MiniMax */
  COLIBRI_ROUTER_SIGMOID = 3,              /* Llama 4 */
  COLIBRI_ROUTER_SQRT_SOFTPLUS_RENORMALISED = 4, /* sqrt(log(1 + e^x)): DeepSeek-V4 */
  COLIBRI_ROUTER_SQRT_SOFTPLUS = 5
} colibri_router_kind;

enum { COLIBRI_ROUTER_MAX_EXPERTS = 1048576, COLIBRI_ROUTER_MAX_GROUPS = 64 };

/* Chooses k of `experts` experts for each row. logits [rows, experts] -> ids and weights [rows, k], best first; equal
 * logits (-0 equals +0) go to the lower id first, exactly like a stable sort.
 *
 * `kind`: a colibri_router_kind. 1 <= k <= experts <= COLIBRI_ROUTER_MAX_EXPERTS; rows may be 0. The three arrays
 * belong to the caller, are aligned like their elements and do not overlap. Any logits are good: NaN ranks below every
 * number and weighs 0; if the largest logits are infinite, a softmax shares the weight among them; weights are never
 * NaN, and are 0 where the sum to divide by is 0. The same bits on every CPU and for any split of the rows into calls.
 * Runs on the calling thread, allocates nothing unless it refuses, and may be called from any number of threads at
 * once. COLIBRI_USAGE when an argument makes no sense; nothing was written then. colibri_route_with says which. */
COLIBRI_API colibri_status colibri_route(const float* logits, int64_t rows, int32_t experts, int32_t kind, int32_t k,
                                         int32_t* ids, float* weights);

/* The whole rule of a router. */
typedef struct colibri_router {
  size_t struct_size; /* sizeof(colibri_router) */
  int32_t kind;       /* a colibri_router_kind */
  int32_t experts, k;
  float scale;      /* times every weight; 1 */
  float sum_offset; /* renormalised: added to the sum, at least 0; 0 */
  /* [experts], added to the scores for choosing only (a correction bias); NULL: the logits choose. */
  const float* bias;
  /* `groups` of consecutive experts, equally many in each; only those of the best `top_groups` are chosen, and k of
   * them must be there. 1, 1: no groups. A group is ranked by its largest score plus bias, or with `two_largest`
   * nonzero by the sum of its two largest. */
  int32_t groups, top_groups;
  int32_t two_largest;
} colibri_router;

/* softmax, renormalised; experts and k are 0 and must be set. */
COLIBRI_API void colibri_router_init(colibri_router* router);
/* colibri_route with any rule, and with a message. */
COLIBRI_API colibri_status colibri_route_with(const colibri_router* router, const float* logits, int64_t rows,
                                              int32_t* ids, float* weights, colibri_error* error);

/* ---- engine ----------------------------------------------------------------------------------------------------- */

typedef struct colibri_engine colibri_engine;

typedef struct colibri_options {
  size_t struct_size;              /* sizeof(colibri_options) */
  const colibri_setting* settings; /* rows of the settings table; what is not named keeps its default */
  size_t n_settings;
  /* Progress of loading, from the loading thread; return nonzero to stop (COLIBRI_CANCELLED). May be NULL. */
  int (*progress)(void* user, uint64_t done_bytes, uint64_t total_bytes);
  void* progress_user;
  /* Log lines, level 0 error to 3 debug, from any thread. May be NULL. */
  void (*log)(void* user, int level, const char* line);
  void* log_user;
  /* With context = auto: plan this many tokens per sequence, at most what the model was trained for. 0: the engine
   * chooses (the model's context, or what a quarter of the budget holds). */
  int64_t wanted_context;
  /* Nonzero: do not open the tokenizer and the chat template; for callers that bring token ids. */
  int32_t without_text;
} colibri_options;

COLIBRI_API void colibri_options_init(colibri_options* options);

/* Plans the memory, checks every tensor's presence and shape, then loads. `options` may be NULL. */
COLIBRI_API colibri_status colibri_open(const char* path, const colibri_options* options, colibri_engine** out,
                                        colibri_error* error);
/* JSON about what colibri_open would keep in memory with these options, what it would read per token, and the bounds on
 * speed that a measurement of less than a second gives; docs/memory.md explains the fields. Loads nothing.
 * COLIBRI_DOES_NOT_FIT names what would fit. `options` may be NULL; its callbacks are not called. */
COLIBRI_API colibri_status colibri_plan(const char* path, const colibri_options* options, colibri_string* json,
                                        colibri_error* error);
/* Cancels what runs, waits for it, frees everything. Sequences must have been freed. */
COLIBRI_API void colibri_close(colibri_engine* engine);

typedef struct colibri_info {
  size_t struct_size; /* set by the caller */
  int32_t n_layers, n_moe_layers, n_experts, top_k, hidden_size, vocab_size;
  int32_t context;       /* tokens per sequence that the engine planned for */
  int32_t model_context; /* what the model was trained for */
  int32_t threads;
  uint64_t planned_bytes, budget_bytes;
  double load_seconds;
  const char* family; /* these strings live as long as the engine */
  const char* isa;
  const char* io;
} colibri_info;

COLIBRI_API colibri_status colibri_engine_info(const colibri_engine* engine, colibri_info* info, colibri_error* error);
/* The engine's tokenizer and template; owned by the engine. NULL when the model came without one. */
COLIBRI_API const colibri_text* colibri_engine_text(const colibri_engine* engine);
/* The JSON of interfaces for statistics: activations per MoE layer and expert, memory, experts of prefill and decode.
 */
COLIBRI_API colibri_status colibri_engine_stats(const colibri_engine* engine, colibri_string* json,
                                                colibri_error* error);

/* Counters, gauges and histograms of the engine, as a JSON array of
 *   {"name", "help", "kind": "counter"|"gauge"|"histogram", "samples": [{"labels": {...}, "value": V}]}
 * with, for a histogram, {"labels", "bounds": [...], "counts": [one more than bounds, not cumulative], "sum": S} as its
 * samples. Names are Prometheus names without a prefix ("time_to_first_token_seconds"). Takes no lock that a step
 * holds. */
COLIBRI_API colibri_status colibri_engine_metrics(const colibri_engine* engine, colibri_string* json,
                                                  colibri_error* error);
/* For every expert, [n_moe_layers][n_experts]: how often it was chosen since the engine was opened, and where it is
 * now. Either array may be NULL; `n` is the number of elements of each. Takes no lock that a step holds. */
enum { COLIBRI_ON_DISK = 0, COLIBRI_IN_MEMORY = 1, COLIBRI_BEING_READ = 2 };
COLIBRI_API colibri_status colibri_engine_experts(const colibri_engine* engine, uint64_t* activations,
                                                  uint8_t* residency, size_t n, colibri_error* error);
/* The decoder layer, counted from 0, of each of those rows: `layers` has n_moe_layers elements. */
COLIBRI_API colibri_status colibri_engine_moe_layers(const colibri_engine* engine, int32_t* layers,
                                                     colibri_error* error);
/* Writes computed prefixes that are not on the disk yet, where prefix_folder is set; blocks. */
COLIBRI_API colibri_status colibri_engine_save_prefixes(colibri_engine* engine, colibri_error* error);

/* ---- evaluate: logits and routing for given tokens -------------------------------------------------------------- */

typedef struct colibri_evaluate_callbacks {
  size_t struct_size;
  void* user;
  /* Logits of positions first .. first + n - 1, row-major [n, vocab_size]. Return nonzero to stop. May be NULL. */
  int (*logits)(void* user, int32_t first, int32_t n, const float* logits, int32_t vocab_size);
  /* Experts of a MoE layer (`layer` counts all decoder layers from 0) for positions first ..: [n, top_k], in the
   * order of choice: by descending weight, unless the model adds something to the scores for choosing. May be NULL. */
  int (*routing)(void* user, int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights,
                 int32_t top_k);
  /* Asked many times a second, from several threads, while the model computes; return nonzero to stop. Must be quick
   * and must not call the library. May be NULL. */
  int (*stop)(void* user);
} colibri_evaluate_callbacks;

/* Runs one sequence of tokens from position 0 and reports; blocks. */
COLIBRI_API colibri_status colibri_evaluate(colibri_engine* engine, const int32_t* ids, size_t n,
                                            const colibri_evaluate_callbacks* callbacks, colibri_error* error);

/* ---- sequences: a prompt in, a stream of events out ------------------------------------------------------------- */

typedef struct colibri_sequence colibri_sequence;

typedef struct colibri_logit_bias {
  int32_t token;
  double bias;
} colibri_logit_bias;

typedef struct colibri_request {
  size_t struct_size; /* sizeof(colibri_request) */
  const int32_t* prompt;
  size_t n_prompt;
  int32_t max_tokens; /* tokens to generate; -1: until the context is full */
  /* Sampling. colibri_request_init fills in the model's generation_config.json, else temperature 1 without filters. */
  double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  int32_t top_k;
  uint64_t seed;
  const colibri_logit_bias* logit_bias;
  size_t n_logit_bias;
  const char* const* stop; /* stop strings */
  size_t n_stop;
  int32_t ignore_eos;   /* nonzero: an end-of-text token does not end the sequence */
  int32_t keep_special; /* nonzero: special tokens appear in the text */
  /* Told the experts of every token that the model computes, prompt and answer: as in colibri_evaluate_callbacks.
   * Called on the engine's thread, one MoE layer after the other, until the END event was given or
   * colibri_sequence_free has returned; while it runs, nobody's tokens advance. It must not call the library. Return
   * nonzero to end the sequence as colibri_cancel does. May be NULL. */
  int (*routing)(void* user, int32_t layer, int32_t first, int32_t n, const int32_t* ids, const float* weights,
                 int32_t top_k);
  void* routing_user;
  /* Log probabilities of the answer's tokens, of the model's own distribution (temperature 1, no penalty, no filter):
   * -1 none, 0 the token's own, k > 0 also those of the k most probable, at most COLIBRI_MAX_TOP_LOGPROBS. */
  int32_t logprobs;
  /* Nonzero: PROMPT_TOKEN events come for every token of the prompt, in order, before the first TOKEN; with logprobs >=
   * 0 they carry them (the first has none). Such a prompt is computed whole. */
  int32_t echo;
  /* Special tokens that appear in the text though keep_special is 0. */
  const int32_t* kept_special;
  size_t n_kept_special;
  /* What the answer must look like, as JSON (docs/constraints.md): {"json": true}, {"schema": {...}}, or what
   * colibri_answer_constraint gave. NULL or "": free. Only tokens that can still lead to a whole answer are sampled,
   * also when greedy. COLIBRI_USAGE with the place and the reason for what is not supported. */
  const char* constraint;
  /* Whose request it is, for fairness: no client waits for another one's many requests. NULL: nobody's. */
  const char* client;
  /* Computed prefixes are shared only among requests with the same key. NULL or "": among all without one. */
  const char* prefix_key;
  /* Called when an event arrived in a stream that had none, from the engine's thread, never after colibri_sequence_free
   * has returned. Must be quick and must not call the library. May be NULL. */
  void (*notify)(void* user);
  void* notify_user;
} colibri_request;

enum { COLIBRI_MAX_TOP_LOGPROBS = 32 };

typedef struct colibri_logprob {
  int32_t token;
  float logprob; /* natural logarithm */
} colibri_logprob;

COLIBRI_API void colibri_request_init(const colibri_engine* engine, colibri_request* request);

typedef enum colibri_event_kind {
  COLIBRI_EVENT_TOKEN = 0,       /* one generated token; text may be empty while a character is incomplete */
  COLIBRI_EVENT_END = 1,         /* the last event; text may hold what was still held back */
  COLIBRI_EVENT_NONE = 2,        /* nothing within the timeout */
  COLIBRI_EVENT_PROGRESS = 3,    /* prompt tokens processed so far, in n_prompt_done; the first says that work began */
  COLIBRI_EVENT_PROMPT_TOKEN = 4 /* one token of the prompt, where echo asked for them */
} colibri_event_kind;

typedef struct colibri_event {
  size_t struct_size; /* set by the caller */
  colibri_event_kind kind;
  int32_t token;
  const char* text; /* valid until the next call for this sequence */
  size_t text_size;
  int32_t n_prompt_done;
  const char* finish_reason;  /* END: "stop", "length", "cancelled", "error" */
  colibri_status status;      /* END: COLIBRI_OK unless cancelled or failed */
  const char* error;          /* END with an error: its line, else NULL */
  double seconds;             /* since submit, when the token was made */
  int32_t n_prompt_cached;    /* prompt tokens that an earlier sequence had computed already */
  float logprob;              /* of `token`, where asked for; NaN: none */
  const colibri_logprob* top; /* [n_top], most probable first, equals by the lower id; valid as long as `text` */
  size_t n_top;
} colibri_event;

/* What colibri_submit would refuse, for a model with this vocabulary and this context (colibri_inspect tells both);
 * needs no engine, so mistakes are found before anything is loaded. A context of 0 checks the parameters only. */
COLIBRI_API colibri_status colibri_request_check(const colibri_request* request, int32_t vocab_size, int64_t context,
                                                 colibri_error* error);
/* Queues a request. The request is copied. COLIBRI_CONTEXT_OVERFLOW before any work is done. */
COLIBRI_API colibri_status colibri_submit(colibri_engine* engine, const colibri_request* request,
                                          colibri_sequence** out, colibri_error* error);
/* The next event, waiting up to timeout_ms (-1: for ever). */
COLIBRI_API colibri_status colibri_next_event(colibri_sequence* sequence, int timeout_ms, colibri_event* event,
                                              colibri_error* error);
/* Ends the sequence after the present step; an END event follows. Async-signal-safe. */
COLIBRI_API void colibri_cancel(colibri_sequence* sequence);
/* Statistics of this sequence as JSON (prompt_tokens, generated_tokens, prefill, decode, ...); complete after END. */
COLIBRI_API colibri_status colibri_sequence_stats(const colibri_sequence* sequence, colibri_string* json,
                                                  colibri_error* error);
/* Cancels if necessary and frees; with a routing callback it waits until the present step is over. */
COLIBRI_API void colibri_sequence_free(colibri_sequence* sequence);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* COLIBRI_COLIBRI_H_ */
