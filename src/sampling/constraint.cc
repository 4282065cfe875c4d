#include "sampling/constraint.h"

#include <algorithm>
#include <array>

#include "sampling/grammar/language.h"
#include "sampling/grammar/machine.h"

namespace colibri::sampling {
namespace {

using grammar::Config;
using grammar::Configs;

constexpr size_t kMasks = 8;          // remembered per sequence
constexpr size_t kManyFrames = 8192;  // from here on those that are needed no more are dropped
constexpr JsonLimits kLimits{.max_depth = 96};

}  // namespace

struct Constraint::Tables {
  grammar::Automaton automaton;
};

Result<Constraint> Constraint::compile(const Json& document, const TokenTexts& tokens) {
  if (tokens.vocab_size() > 0) COLIBRI_TRY(tokens.can_spell_everything());
  COLIBRI_ASSIGN(grammar::Automaton automaton, grammar::compile_document(document, tokens));
  return Constraint(std::make_shared<const Tables>(Tables{std::move(automaton)}));
}

Result<Constraint> Constraint::parse(std::string_view document, const TokenTexts& tokens) {
  Result<Json> json = parse_json(document, kLimits);
  if (!json.ok()) return Error{ErrorCode::kUsage, "the constraint: " + json.error().message};
  return compile(*json, tokens);
}

struct ConstraintState::Run {
  struct Remembered {
    Configs configs;
    TokenMask mask;
    uint64_t used = 0;  // 0: never
  };

  Run(Constraint c, const TokenTexts& t) : constraint(std::move(c)), tokens(t), machine(constraint.tables_->automaton) {
    now.reserve(64);
    next.reserve(64);
    walk.reserve(1024);
    begin.resize(t.longest() + 2);
    marks.resize(t.longest() + 2);
    for (Remembered& entry : masks) {
      entry.mask = TokenMask(t.vocab_size());
      entry.configs.reserve(64);
    }
    machine.start(now);
  }

  bool complete() const {
    return std::any_of(now.begin(), now.end(), [this](const Config& config) { return machine.is_end(config); });
  }

  bool must_end() const {
    return std::all_of(now.begin(), now.end(), [this](const Config& config) { return !info(config).reads; });
  }

  const grammar::Automaton::StateInfo& info(const Config& config) const {
    return machine.automaton().states[config.state];
  }

  const TokenMask& allowed() {
    ++clock;
    for (Remembered& entry : masks) {
      if (entry.used == 0 || entry.configs != now) continue;
      entry.used = clock;
      return entry.mask;
    }
    Remembered& entry = *std::min_element(masks.begin(), masks.end(),
                                          [](const Remembered& a, const Remembered& b) { return a.used < b.used; });
    entry.used = clock;
    entry.configs = now;
    fill(entry.mask);
    return entry.mask;
  }

  // Where any plain character leads back to the same place, plain tokens need no walk.
  void fill(TokenMask& mask) {
    mask.clear();
    if (now.size() == 1 && info(now[0]).plain_loop && info(now[0]).loop_except >= 0) return fill_until(mask);
    bool all_plain = false, others_read_plain = false;
    for (const Config& config : now) {
      const int64_t n = plain_characters(config);
      all_plain = all_plain || n == kAny;
      others_read_plain = others_read_plain || (n == 0 && info(config).reads_plain);
      if (n > 0) tokens.add_plain_up_to(n, mask);
      add_special(config, mask);
    }
    add_walked(all_plain || !others_read_plain ? tokens.odd() : tokens.all(), mask);
    if (complete())
      for (const TokenId id : tokens.end_ids()) mask.set(id);
  }

  // Free text up to some other text: only tokens with that text's first byte, and odd ones, are tried.
  void fill_until(TokenMask& mask) {
    add_special(now[0], mask);
    for (const TokenId id : tokens.split_plain(static_cast<uint8_t>(info(now[0]).loop_except), mask)) {
      const size_t mark = machine.mark();
      walk.assign(now.begin(), now.end());
      read(tokens.bytes(id));
      if (!walk.empty()) mask.set(id);
      machine.rewind(mark);
    }
  }

  void read(std::string_view bytes) {
    for (const char c : bytes) {
      if (walk.empty()) return;
      advance([&](Configs& out) { machine.step(walk, 0, walk.size(), static_cast<uint8_t>(c), out); });
    }
  }

  // How many plain characters may follow here, whatever they are.
  int64_t plain_characters(const Config& config) const {
    const auto& state = info(config);
    if (!state.plain_loop || state.loop_except >= 0) return 0;
    if (state.loop_bounds < 0) return kAny;
    const grammar::Bounds& bounds = machine.automaton().bounds[static_cast<size_t>(state.loop_bounds)];
    return bounds.max < 0 ? kAny : bounds.max - config.count + 1;  // this one is counted already
  }

  void add_special(const Config& config, TokenMask& mask) const {
    for (const grammar::Edge& edge : machine.automaton().edges_of(config.state))
      if (edge.kind == grammar::Edge::kSpecial) mask.set(edge.value);
  }

  // begin[d] to begin[d + 1]: the places behind d bytes of the branch.
  void add_walked(const TokenTrie& trie, TokenMask& mask) {
    walk.assign(now.begin(), now.end());
    begin[0] = 0;
    begin[1] = walk.size();
    const size_t base = machine.mark();
    std::fill(marks.begin(), marks.end(), base);
    for (size_t i = 0; i < trie.size();) {
      const TokenTrie::Node& node = trie.nodes[i];
      const size_t d = node.depth;
      walk.resize(begin[d]);
      machine.rewind(marks[d]);
      machine.step(walk, begin[d - 1], begin[d], node.byte, walk);
      begin[d + 1] = walk.size();
      marks[d + 1] = machine.mark();
      if (begin[d + 1] == begin[d]) {
        i = node.end;
        continue;
      }
      for (const TokenId id : trie.tokens_of(i)) mask.set(id);
      ++i;
    }
    machine.rewind(base);
  }

  bool accept(TokenId token) {
    if (token < 0 || token >= tokens.vocab_size()) return false;
    if (tokens.is_end(token)) {
      if (!complete()) return false;
      now.clear();
      return true;
    }
    const std::string_view bytes = tokens.bytes(token);
    const size_t mark = machine.mark();
    walk.assign(now.begin(), now.end());
    if (bytes.empty()) advance([&](Configs& out) { machine.step_special(walk, 0, walk.size(), token, out); });
    read(bytes);
    if (walk.empty()) {
      machine.rewind(mark);
      return false;
    }
    now.swap(walk);
    if (machine.mark() > kManyFrames) forget();
    return true;
  }

  template <typename Step>
  void advance(Step step) {
    next.clear();
    step(next);
    walk.swap(next);
  }

  // Frames get new numbers, so nothing remembered is valid any more.
  void forget() {
    machine.compact(now);
    for (Remembered& entry : masks) entry.used = 0;
  }

  static constexpr int64_t kAny = INT64_MAX;
  Constraint constraint;
  const TokenTexts& tokens;
  grammar::Machine machine;
  Configs now;         // the places behind the text so far
  Configs next, walk;  // scratch
  std::vector<size_t> begin, marks;
  std::array<Remembered, kMasks> masks;
  uint64_t clock = 0;
};

ConstraintState::ConstraintState(Constraint constraint, const TokenTexts& tokens)
    : run_(std::make_unique<Run>(std::move(constraint), tokens)) {}
ConstraintState::ConstraintState(ConstraintState&&) noexcept = default;
ConstraintState& ConstraintState::operator=(ConstraintState&&) noexcept = default;
ConstraintState::~ConstraintState() = default;

const TokenMask& ConstraintState::allowed() { return run_->allowed(); }
bool ConstraintState::accept(TokenId token) { return run_->accept(token); }
bool ConstraintState::complete() const { return run_->complete(); }
bool ConstraintState::must_end() const { return run_->must_end(); }

int64_t ConstraintState::bytes(const TokenTexts& tokens) {
  return static_cast<int64_t>(kMasks) * (tokens.vocab_size() / 8 + 1024) + 256 * 1024;
}

}  // namespace colibri::sampling
