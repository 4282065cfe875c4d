// colibri inspect, validate, doctor, test, config, version: commands that print what the library or the settings say.

#include "commands.h"
#include "report.h"
#include "server/server_settings.h"
#include "session.h"

namespace colibri::cli {
namespace {

Status print_report(const std::string& text, bool as_json, StandardOutput& out) {
  const auto parsed = parse_json(text, "report");
  if (!parsed) return parsed.error();
  return out.write(as_json ? dump_json(*parsed, 2) + "\n" : render_report(*parsed));
}

// The report, if there is one, and then what was wrong.
Status print_verdict(const api::Report& report, bool as_json, StandardOutput& out) {
  if (!report.json.empty()) {
    if (Status printed = print_report(report.json, as_json, out); !printed) return printed;
  }
  if (report.status == COLIBRI_OK) return {};
  return Error{report.status, report.message};
}

std::string value_for_people(const Setting& setting) { return setting.value.empty() ? "\"\"" : setting.value; }

}  // namespace

Status inspect_command(const ReportArgs& args, StandardOutput& out) {
  if (Status named = require_model(args.engine.model); !named) return named;
  const auto report = api::inspect(args.engine.model, args.tensors);
  if (!report) return report.error();
  return print_report(*report, args.json, out);
}

Status validate_command(const ReportArgs& args, StandardOutput& out) {
  if (Status named = require_model(args.engine.model); !named) return named;
  return print_verdict(api::validate(args.engine.model, args.tokenizer), args.json, out);
}

Status doctor_command(const ReportArgs& args, StandardOutput& out) {
  const auto report = api::doctor(args.engine.model);
  if (!report) return report.error();
  return print_report(*report, args.json, out);
}

Status test_command(const ReportArgs& args, StandardOutput& out) {
  return print_verdict(api::self_test(args.what), args.json, out);
}

Status config_command(const ReportArgs& args, StandardOutput& out) {
  const auto settings =
      Settings::load({args.engine.flags, args.engine.config, args.engine.model, server::setting_rows()});
  if (!settings) return settings.error();
  json::object object;
  std::vector<std::vector<std::string>> rows{{"setting", "value", "from"}};
  for (const Setting& setting : settings->all()) {
    object[setting.key] = json::object{{"value", setting.value}, {"from", setting.origin}};
    rows.push_back({setting.key, value_for_people(setting), setting.origin});
  }
  return out.write(args.json ? dump_json(object, 2) + "\n" : render_table(rows, 0));
}

Status version_command(const ReportArgs& args, StandardOutput& out) {
  const std::string version = colibri_version();
  return out.write(args.json ? dump_json(json::object{{"version", version}}) + "\n" : "colibri " + version + "\n");
}

}  // namespace colibri::cli
