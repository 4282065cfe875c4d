// Settings of one engine of a soak, drawn at random: how much memory it has for experts, and how it deals with that.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace colibri::soak {

struct EngineSettings {
  std::vector<std::pair<std::string, std::string>> values;
  bool may_not_fit = false;  ///< `memory` was set, perhaps to less than the model needs

  std::string text() const;  ///< as flags of the program
};

/// `heat_file`: where heat is kept when it is kept.
EngineSettings draw_settings(std::mt19937_64& random, const std::string& heat_file);

}  // namespace colibri::soak
