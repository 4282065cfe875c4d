// colibri: the command-line program, a client of colibri.h like anybody else's.

#include <sys/resource.h>

#include <algorithm>
#include <clocale>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "args.h"
#include "commands.h"
#include "common/output.h"
#include "common/settings.h"
#include "common/signals.h"
#include "server/server_settings.h"

namespace colibri::cli {
namespace {

// Models come in hundreds of files.
void allow_many_files() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Commands that compute, or write files.
bool has_something_to_stop(const std::string& command) {
  static constexpr const char* kCommands[] = {"run", "chat", "serve", "logits", "perplexity", "bench"};
  return std::find(std::begin(kCommands), std::end(kCommands), command) != std::end(kCommands);
}

Status dispatch(const Arguments& args, StandardOutput& out) {
  const std::string& command = args.command;
  if (command == "help") return out.write(args.help);
  if (command == "version") return version_command(args.report, out);
  if (Status known = check_environment_names(server::setting_rows()); !known) return known;
  if (has_something_to_stop(command)) watch_signals();
  if (command == "run") return run_command(args.run, out);
  if (command == "chat") return chat_command(args.chat, out);
  if (command == "serve") return serve_command(args.serve, out);
  if (command == "tokenize") return tokenize_command(args.text, out);
  if (command == "detokenize") return detokenize_command(args.text, out);
  if (command == "template") return template_command(args.text, out);
  if (command == "logits") return logits_command(args.logits, out);
  if (command == "perplexity") return perplexity_command(args.perplexity, out);
  if (command == "bench") return bench_command(args.bench, out);
  if (command == "plan") return plan_command(args.report, out);
  if (command == "inspect") return inspect_command(args.report, out);
  if (command == "validate") return validate_command(args.report, out);
  if (command == "doctor") return doctor_command(args.report, out);
  if (command == "test") return test_command(args.report, out);
  return config_command(args.report, out);
}

Status parse_and_run(const std::vector<std::string>& words, StandardOutput& out) {
  const std::vector<std::string> expanded = expand_aliases(words);
  const auto args = parse_arguments({expanded.begin() + 1, expanded.end()});
  if (!args) return args.error();
  Status done = dispatch(*args, out);
  const Status flushed = out.flush();  // what a failed command printed before it failed counts as well
  return done.ok() ? flushed : done;
}

int exit_status(const Status& done, const StandardOutput& out) {
  settle_signals();
  if (interrupted() != 0) return 128 + interrupted();
  if (done.ok() || out.closed()) return 0;  // a reader that has seen enough is no failure
  print_error_line(done.error().message);
  return done.error().exit_code();
}

int out_of_memory() {
  print_error_line("out of memory; try a smaller --context or --memory, or close other programs");
  return colibri_exit_code(COLIBRI_DOES_NOT_FIT);
}

int out_of_threads(const std::system_error& error) {
  print_error_line(std::string("cannot start a thread: ") + error.what() +
                   "; raise the limits of this shell (ulimit -u, ulimit -v), or close other programs");
  return colibri_exit_code(COLIBRI_DOES_NOT_FIT);
}

int unexpected(const std::exception& error) {
  print_error_line(std::string("unexpected: ") + error.what());
  return colibri_exit_code(COLIBRI_FAILED);
}

int guarded_main(int argc, char** argv) {
  try {
    std::setlocale(LC_CTYPE, "");  // for the line editor; numbers keep their points
    StandardOutput out;
    return exit_status(parse_and_run({argv, argv + argc}, out), out);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::system_error& error) {
    const bool threads = error.code() == std::errc::resource_unavailable_try_again;
    return threads ? out_of_threads(error) : unexpected(error);
  } catch (const std::exception& error) {
    return unexpected(error);
  }
}

}  // namespace
}  // namespace colibri::cli

int main(int argc, char** argv) {
  colibri::cli::open_missing_standard_streams();
  colibri::cli::exit_on_signals();
  colibri::cli::allow_many_files();
  return colibri::cli::guarded_main(argc, argv);
}
