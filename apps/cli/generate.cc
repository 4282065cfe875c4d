#include "generate.h"

#include "common/progress.h"
#include "common/signals.h"
#include "session.h"
#include "stats.h"

namespace colibri::cli {
namespace {

Status failure_of(const api::Event& event) {
  if (event.status == COLIBRI_OK || event.status == COLIBRI_CANCELLED) return {};
  return Error{event.status, std::string(event.error)};
}

}  // namespace

Outcome<Generation> generate(api::Engine& engine, const api::Request& request, const std::string& model,
                             const std::function<Status(std::string_view)>& show) {
  auto sequence = engine.submit(request);
  if (!sequence) return sequence.error();
  const CancelOnInterrupt cancel(*sequence);
  Progress progress("reading the prompt", Progress::Unit::kTokens);
  Generation result;
  for (;;) {
    const auto event = sequence->next();
    if (!event) return event.error();
    if (event->kind == COLIBRI_EVENT_PROGRESS) {
      progress.update(static_cast<uint64_t>(event->n_prompt_done), request.prompt.size());
      continue;
    }
    progress.finish();
    if (event->kind == COLIBRI_EVENT_TOKEN) result.tokens.push_back(event->token);
    result.text += event->text;
    if (Status shown = show(event->text); !shown) return shown.error();
    if (event->kind != COLIBRI_EVENT_END) continue;
    if (Status failed = failure_of(*event); !failed) return failed.error();
    result.finish_reason = event->finish_reason;
    auto stats = sequence_stats(engine, *sequence, model);
    if (!stats) return stats.error();
    result.stats = std::move(*stats);
    return result;
  }
}

Conversation::Conversation(const std::string& system) {
  if (!system.empty()) add("system", system);
}

void Conversation::add(const std::string& role, const std::string& content) {
  messages_.push_back(json::object{{"role", role}, {"content", content}});
}

Outcome<TokenIds> Conversation::prompt(const api::TextView& text) const {
  const json::object request{{"messages", messages_}, {"add_generation_prompt", true}};
  const auto rendered = text.apply_template(dump_json(request));
  if (!rendered) return rendered.error();
  return text.tokenize(*rendered, tokenize_flags(false));
}

}  // namespace colibri::cli
