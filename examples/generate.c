/* generate.c: text from a model with the C API, C99.
 *
 *     cc -std=c99 -I include examples/generate.c -L build/lib -lcolibri -Wl,-rpath,$PWD/build/lib -o generate
 *     ./generate models/colibri-tales-14m-q8_0.gguf "Once upon a time"
 */
#include <stdio.h>
#include <string.h>

#include "colibri/colibri.h"

static int fail(const colibri_error* error) {
  fprintf(stderr, "%s\n", error->message);
  return colibri_exit_code(error->code);
}

/* Prints the events of a sequence until its last one. */
static int print_text(colibri_sequence* sequence) {
  colibri_error error;
  colibri_event event;
  do {
    memset(&event, 0, sizeof event);
    event.struct_size = sizeof event;
    if (colibri_next_event(sequence, -1, &event, &error) != COLIBRI_OK) return fail(&error);
    if (event.text != NULL) fwrite(event.text, 1, event.text_size, stdout);
    fflush(stdout);
  } while (event.kind != COLIBRI_EVENT_END);
  printf("\n");
  return colibri_exit_code(event.status);
}

static int generate(colibri_engine* engine, const char* prompt) {
  colibri_error error;
  colibri_ids ids = {0};
  colibri_request request;
  colibri_sequence* sequence = NULL;
  int result;

  if (colibri_tokenize(colibri_engine_text(engine), prompt, strlen(prompt), COLIBRI_ADD_SPECIAL, &ids, &error) !=
      COLIBRI_OK)
    return fail(&error);
  colibri_request_init(engine, &request);
  request.prompt = ids.data;
  request.n_prompt = ids.size;
  request.max_tokens = 60;
  request.temperature = 0; /* greedy */
  if (colibri_submit(engine, &request, &sequence, &error) != COLIBRI_OK) {
    colibri_ids_free(&ids);
    return fail(&error);
  }
  colibri_ids_free(&ids); /* the request was copied */
  result = print_text(sequence);
  colibri_sequence_free(sequence);
  return result;
}

int main(int argc, char** argv) {
  colibri_error error;
  colibri_engine* engine = NULL;
  int result;

  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]);
    return 2;
  }
  if (colibri_open(argv[1], NULL, &engine, &error) != COLIBRI_OK) return fail(&error);
  if (colibri_engine_text(engine) == NULL) {
    fprintf(stderr, "%s has no tokenizer\n", argv[1]);
    result = 3;
  } else {
    result = generate(engine, argv[2]);
  }
  colibri_close(engine);
  return result;
}
