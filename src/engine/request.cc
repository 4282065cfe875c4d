#include "engine/request.h"

namespace colibri::engine {

Status check_prompt(const TokenIds& ids, int64_t room, int32_t vocab_size, int64_t context, int64_t model_context) {
  if (ids.empty()) return Error{ErrorCode::kUsage, "the prompt is empty; give at least one token"};
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab_size)
      return Error{ErrorCode::kUsage, "token " + std::to_string(i) + " of the prompt is " + std::to_string(ids[i]) +
                                          ", the vocabulary has ids 0 to " + std::to_string(vocab_size - 1)};
  const auto n = static_cast<int64_t>(ids.size());
  if (n + room <= context) return {};
  const std::string asked = room == 0 ? " tokens" : " tokens and one more is to be generated";
  const std::string advice = model_context == 0 ? "shorten it, or raise --context where the model allows more"
                             : context < model_context
                                 ? "raise --context (the model allows " + std::to_string(model_context) + ")"
                                 : "shorten it (the model was trained for no more)";
  return Error{ErrorCode::kContextOverflow, "the prompt has " + std::to_string(n) + asked + ", the context holds " +
                                                std::to_string(context) + "; " + advice};
}

Status check_parameters(const Request& request, int32_t vocab_size) {
  COLIBRI_TRY(sampling::validate(request.sampling));
  for (const auto& [id, bias] : request.sampling.logit_bias)
    if (id < 0 || id >= vocab_size)
      return Error{ErrorCode::kUsage, "logit_bias names token " + std::to_string(id) +
                                          ", the vocabulary has ids 0 to " + std::to_string(vocab_size - 1)};
  if (request.logprobs < -1 || request.logprobs > kMaxTopLogprobs)
    return Error{ErrorCode::kUsage, "logprobs is " + std::to_string(request.logprobs) + ", expected -1 to " +
                                        std::to_string(kMaxTopLogprobs)};
  if (request.max_tokens < -1)
    return Error{ErrorCode::kUsage, "max_tokens is " + std::to_string(request.max_tokens) +
                                        "; give a number of tokens, or -1 for as many as the context holds"};
  return {};
}

}  // namespace colibri::engine
