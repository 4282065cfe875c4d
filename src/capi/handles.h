// What the opaque handles of colibri.h are.
#pragma once

#include <memory>
#include <optional>

#include "colibri/colibri.h"
#include "engine/engine.h"
#include "engine/text_model.h"

struct colibri_text {
  std::optional<colibri::engine::TextModel> owned;  // empty when it belongs to an engine
  const colibri::engine::TextModel* model = nullptr;
};

struct colibri_engine {
  std::unique_ptr<colibri::engine::Engine> engine;
  colibri_text text;  // model is null when the engine has no tokenizer
};

struct colibri_sequence {
  colibri::engine::Engine* engine = nullptr;
  std::shared_ptr<colibri::engine::Sequence> sequence;
  colibri::engine::TokenEvent event;  // the last one handed out; its text stays valid until the next call
  bool ended = false;
};
