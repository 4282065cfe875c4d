// experts.cc: which experts a text uses, with the C++ wrapper.
//
//     c++ -std=c++20 -I include examples/experts.cc -L build/lib -lcolibri -Wl,-rpath,$PWD/build/lib -o experts
//     ./experts models/colibri-tales-14m-q8_0.gguf "Once upon a time"
#include <cstdio>
#include <map>

#include "colibri/colibri.hpp"

namespace api = colibri::api;

namespace {

using Counts = std::map<int32_t, std::map<int32_t, int>>;  // layer -> expert -> tokens

api::Outcome<Counts> count_experts(const char* model, const char* prompt) {
  auto engine = api::Engine::open(model);
  if (!engine) return engine.error();
  if (!engine->text()) return api::Error{COLIBRI_INVALID_MODEL, std::string(model) + " has no tokenizer"};
  const auto ids = engine->text().tokenize(prompt, COLIBRI_ADD_SPECIAL);
  if (!ids) return ids.error();
  Counts counts;
  api::EvaluateCallbacks callbacks;
  callbacks.routing = [&](int32_t layer, int32_t, int32_t n, const int32_t* experts, const float*, int32_t top_k) {
    for (int32_t i = 0; i < n * top_k; ++i) ++counts[layer][experts[i]];
    return true;
  };
  if (const auto done = engine->evaluate(*ids, callbacks); !done) return done.error();
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL TEXT\n", argv[0]);
    return 2;
  }
  const auto counts = count_experts(argv[1], argv[2]);
  if (!counts) {
    std::fprintf(stderr, "%s\n", counts.error().message.c_str());
    return counts.error().exit_code();
  }
  for (const auto& [layer, experts] : *counts) {
    std::printf("layer %d:", layer);
    for (const auto& [expert, tokens] : experts) std::printf(" %d:%d", expert, tokens);
    std::printf("\n");
  }
  return 0;
}
