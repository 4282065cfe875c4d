// What the machine and the system give this process: facts for reports, not for decisions; and its environment.
#pragma once

#include <cstdint>
#include <string>

namespace colibri::platform {

struct SystemFacts {
  std::string kernel;         ///< "Linux 6.1.0"
  std::string cpu_model;      ///< as the CPU names itself; empty when it does not say
  int online_cores = 0;       ///< of the machine; usable_cores() are those of this process
  int64_t total_memory = 0;   ///< bytes of the machine
  int64_t swap = 0;           ///< bytes
  std::string huge_pages;     ///< "always", "madvise", "never"; empty when the system has none
  int64_t open_files = 0;     ///< limit of this process; -1: none
  int64_t locked_memory = 0;  ///< bytes, limit of this process; -1: none
};

SystemFacts system_facts();

/// The variable's value; empty when it is not set. Not while another thread changes the environment.
std::string environment_variable(const char* name);

/// The choice in brackets of a system file such as "always [madvise] never"; empty when there is none.
std::string chosen_word(const std::string& text);

}  // namespace colibri::platform
