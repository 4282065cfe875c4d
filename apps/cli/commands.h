// The commands. Each writes its answer to `out`, and gives the error that the program ends with.
#pragma once

#include "args.h"
#include "common/failure.h"
#include "common/output.h"

namespace colibri::cli {

using namespace common;

Status run_command(const RunArgs& args, StandardOutput& out);
Status chat_command(const ChatArgs& args, StandardOutput& out);
Status serve_command(const ServeArgs& args, StandardOutput& out);
Status tokenize_command(const TextArgs& args, StandardOutput& out);
Status detokenize_command(const TextArgs& args, StandardOutput& out);
Status template_command(const TextArgs& args, StandardOutput& out);
Status logits_command(const LogitsArgs& args, StandardOutput& out);
Status perplexity_command(const PerplexityArgs& args, StandardOutput& out);
Status bench_command(const BenchArgs& args, StandardOutput& out);
Status plan_command(const ReportArgs& args, StandardOutput& out);
Status inspect_command(const ReportArgs& args, StandardOutput& out);
Status validate_command(const ReportArgs& args, StandardOutput& out);
Status doctor_command(const ReportArgs& args, StandardOutput& out);
Status test_command(const ReportArgs& args, StandardOutput& out);
Status config_command(const ReportArgs& args, StandardOutput& out);
Status version_command(const ReportArgs& args, StandardOutput& out);

}  // namespace colibri::cli
