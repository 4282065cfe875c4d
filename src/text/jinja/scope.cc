#include "text/jinja/scope.h"

#include <unordered_map>

namespace colibri::text::jinja {
namespace {

class Symbols {
 public:
  Symbols(Scope& scope, const Symbols* parent) : scope_(scope), parent_(parent) {}

  void run() {
    for (const NameEvent& event : scope_.events) see(event);
    for (const NameEvent& event : scope_.events) refer(*event.ref);
    for (Scope* child : scope_.children) Symbols(*child, this).run();
  }

 private:
  struct Found {
    const Function* function;
    int slot;
  };

  void see(const NameEvent& event) {
    const std::string_view name = event.ref->name;
    if (slots_.contains(name)) return;
    const bool is_load = event.kind == NameEvent::Kind::kLoad;
    if (event.kind == NameEvent::Kind::kParam) {
      define(name);
    } else if (const Found outer = parent_ == nullptr ? Found{nullptr, -1} : parent_->find(name); outer.slot >= 0) {
      if (is_load) return;  // reads the outer variable itself, unless a later event stores here
      scope_.inits.push_back({SlotInit::Source::kOuter, define(name), name, hops_to(outer.function), outer.slot});
    } else {
      const bool from_context = is_load || event.is_conditional;
      const auto source = from_context ? SlotInit::Source::kContext : SlotInit::Source::kNothing;
      scope_.inits.push_back({source, define(name), name, 0, -1});
    }
  }

  void refer(NameRef& ref) const {
    const Found found = find(ref.name);
    ref.hops = hops_to(found.function);
    ref.slot = found.slot;
  }

  int define(std::string_view name) { return slots_[name] = scope_.function->slots++; }

  Found find(std::string_view name) const {
    for (const Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent_) {
      const auto it = symbols->slots_.find(name);
      if (it != symbols->slots_.end()) return {symbols->scope_.function, it->second};
    }
    return {nullptr, -1};
  }

  int hops_to(const Function* function) const {
    int hops = 0;
    for (const Function* f = scope_.function; f != function; f = f->parent) ++hops;
    return hops;
  }

  Scope& scope_;
  const Symbols* parent_;
  std::unordered_map<std::string_view, int> slots_;
};

}  // namespace

void resolve(Scope& root) { Symbols(root, nullptr).run(); }

}  // namespace colibri::text::jinja
