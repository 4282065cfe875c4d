#include "engine/text_model.h"

#include <array>
#include <charconv>
#include <ctime>

#include "model/families/family.h"
#include "platform/file.h"

namespace colibri::engine {
namespace {

constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;
constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;

Result<Json> read_json_if_there(const std::string& path) {
  return platform::exists(path) ? model::read_config_file(path) : Result<Json>(Json{});
}

// A token in tokenizer_config.json: a string, or {"content": "..."}.
const std::string* token_text(const Json* value) {
  if (value == nullptr) return nullptr;
  if (value->is_object()) value = value->find_value("content");
  return value != nullptr && value->is_string() ? &value->as_string() : nullptr;
}

// chat_template is a string, which is the "default" one, or a list of {"name", "template"}.
const std::string* template_text(const Json* value, std::string_view wanted = "default") {
  if (value == nullptr) return nullptr;
  if (value->is_string()) return wanted == "default" ? &value->as_string() : nullptr;
  if (!value->is_array()) return nullptr;
  for (const Json& item : value->as_array()) {
    const Json* name = item.find_value("name");
    const Json* source = item.find_value("template");
    if (name != nullptr && *name == Json(wanted) && source != nullptr && source->is_string())
      return &source->as_string();
  }
  return nullptr;
}

std::vector<std::string> string_list(const Json* value) {
  std::vector<std::string> list;
  if (value == nullptr || !value->is_array()) return list;
  list.reserve(value->as_array().size());
  for (const Json& item : value->as_array()) list.push_back(item.is_string() ? item.as_string() : std::string());
  return list;
}

int64_t integer_or(const Json* value, int64_t fallback) {
  return value != nullptr && value->is_int() ? value->as_int() : fallback;
}

std::optional<bool> flag(const Json* value) {
  return value != nullptr && value->is_bool() ? std::optional(value->as_bool()) : std::nullopt;
}

std::string string_or_empty(const Json* value) {
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

text::GgufVocabulary vocabulary_of(const Json& metadata) {
  const auto key = [&metadata](std::string_view name) {
    return metadata.find_value("tokenizer.ggml." + std::string(name));
  };
  text::GgufVocabulary v;
  v.model = string_or_empty(key("model"));
  v.pre = string_or_empty(key("pre"));
  v.tokens = string_list(key("tokens"));
  v.merges = string_list(key("merges"));
  if (const Json* types = key("token_type"); types != nullptr && types->is_array())
    for (const Json& type : types->as_array()) v.token_types.push_back(static_cast<int32_t>(integer_or(&type, 1)));
  if (const Json* scores = key("scores"); scores != nullptr && scores->is_array())
    for (const Json& score : scores->as_array())
      v.scores.push_back(score.is_number() ? static_cast<float>(score.as_double()) : 0);
  if (const Json* map = key("precompiled_charsmap"); map != nullptr && map->is_array())
    for (const Json& byte : map->as_array()) v.precompiled_charsmap.push_back(static_cast<char>(integer_or(&byte, 0)));
  v.bos_id = integer_or(key("bos_token_id"), -1);
  v.eos_id = integer_or(key("eos_token_id"), -1);
  v.unknown_id = integer_or(key("unknown_token_id"), -1);
  v.add_bos = flag(key("add_bos_token"));
  v.add_eos = flag(key("add_eos_token"));
  v.add_space_prefix = flag(key("add_space_prefix"));
  v.remove_extra_whitespaces = flag(key("remove_extra_whitespaces"));
  return v;
}

// The files that a tokenizer may be in, the best first; "*" stands for any beginning of the name.
using ReadTokenizer = Result<text::Tokenizer> (*)(std::string_view bytes, const Json& config, const std::string& path);
struct TokenizerFile {
  std::string_view name;
  ReadTokenizer read;
};
constexpr std::array<TokenizerFile, 5> kTokenizerFiles = {{{"tokenizer.json", text::Tokenizer::from_json},
                                                           {"tekken.json", text::Tokenizer::from_tekken},
                                                           {"tokenizer.model", text::Tokenizer::from_sentencepiece},
                                                           {"tiktoken.model", text::Tokenizer::from_tiktoken},
                                                           {"*.tiktoken", text::Tokenizer::from_tiktoken}}};

bool is_named(const TokenizerFile& file, std::string_view name) {
  return file.name.front() == '*' ? name.ends_with(file.name.substr(1)) : name == file.name;
}

// Empty: there is none.
std::string find_tokenizer(const std::string& folder) {
  const auto names = platform::list_directory(folder);
  if (!names.ok()) return {};
  for (const TokenizerFile& file : kTokenizerFiles)
    for (const std::string& name : *names)
      if (is_named(file, name)) return platform::join(folder, name);
  return {};
}

// How to read the file at `path`; nullptr when its name is not that of a tokenizer.
ReadTokenizer reader_of(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  for (const TokenizerFile& file : kTokenizerFiles)
    if (is_named(file, name)) return file.read;
  return nullptr;
}

std::string tokenizer_file_names() {
  std::string names;
  for (const TokenizerFile& file : kTokenizerFiles) names.append(names.empty() ? "" : ", ").append(file.name);
  return names;
}

// tokenizer_config.json. Older repositories keep the ids of added tokens in a file of their own, added_tokens.json
// ({"text": id}); they are put where newer ones have them.
Result<Json> read_tokenizer_config(const std::string& folder) {
  const std::string path = platform::join(folder, "tokenizer_config.json");
  COLIBRI_ASSIGN(Json config, read_json_if_there(path));
  if (!config.is_null() && !config.is_object()) return Error{ErrorCode::kInvalidModel, path + ": not a JSON object"};
  if (config.find_value("added_tokens_decoder") != nullptr) return config;
  COLIBRI_ASSIGN(const Json added, read_json_if_there(platform::join(folder, "added_tokens.json")));
  if (!added.is_object()) return config;
  Json decoder{Json::Object{}};
  for (const auto& [content, id] : added.as_object()) {
    Json token;
    token.set("content", content).set("normalized", false).set("special", content.starts_with("<|"));
    decoder.set(id.dump(), std::move(token));
  }
  config.set("added_tokens_decoder", std::move(decoder));
  return config;
}

}  // namespace

Result<TextModel::LoadedTemplate> TextModel::load_template(std::string_view source, const std::string& name) {
  COLIBRI_ASSIGN(text::ChatTemplate chat, text::ChatTemplate::parse(source, name));
  text::MessageForm form = text::message_form_of(chat, source);
  return LoadedTemplate{std::move(chat), std::string(source), std::move(form)};
}

void TextModel::set_template(std::string_view source, const std::string& name) {
  auto loaded = load_template(source, name);
  if (loaded.ok()) {
    chat_template_ = *std::move(loaded);
    template_problem_.clear();
  } else {
    template_problem_ = loaded.error().message;
  }
}

void TextModel::set_tool_template(const std::string* source, const std::string& name) {
  auto loaded = source != nullptr ? load_template(*source, name) : Result<LoadedTemplate>(Error{});
  if (loaded.ok()) tool_template_ = *std::move(loaded);
}

const TextModel::LoadedTemplate& TextModel::template_for(bool with_tools) const {
  return tool_template_ && with_tools ? *tool_template_ : *chat_template_;
}

text::AnswerFormat TextModel::answer_format(bool with_tools) const {
  if (!chat_template_) return {};
  return text::detect_answer_format(template_for(with_tools).source, [this](std::string_view token) {
    return tokenizer_ && tokenizer_->find(token) >= 0;
  });
}

void TextModel::read_special_tokens(const Json& tokenizer_config) {
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"})
    if (const std::string* text = token_text(tokenizer_config.find(key))) special_tokens_.set(key, *text);
}

Status TextModel::add_template_files(const std::string& folder, const Json& tokenizer_config) {
  const std::string jinja = platform::join(folder, "chat_template.jinja");
  if (platform::exists(jinja)) {
    COLIBRI_ASSIGN(const std::string source, platform::read_text_file(jinja, kMaxTemplateBytes));
    set_template(source, jinja);
    return add_tool_template_file(folder);
  }
  if (const Json* value = tokenizer_config.find_value("chat_template")) {
    const std::string name = platform::join(folder, "tokenizer_config.json") + " chat_template";
    const std::string* source = template_text(value);
    if (source != nullptr) set_template(*source, name);
    if (source == nullptr) template_problem_ = name + " is neither a template nor a list with a \"default\" one";
    set_tool_template(template_text(value, "tool_use"), name + " tool_use");
    return {};
  }
  const std::string path = platform::join(folder, "chat_template.json");
  COLIBRI_ASSIGN(const Json file, read_json_if_there(path));
  if (const std::string* source = template_text(file.find_value("chat_template"))) set_template(*source, path);
  return {};
}

Status TextModel::add_tool_template_file(const std::string& folder) {
  const std::string path = platform::join(folder, "additional_chat_templates/tool_use.jinja");
  if (!platform::exists(path)) return {};
  COLIBRI_ASSIGN(const std::string source, platform::read_text_file(path, kMaxTemplateBytes));
  set_tool_template(&source, path);
  return {};
}

Result<std::optional<TextModel>> TextModel::from_folder(const std::string& folder) {
  const std::string path = find_tokenizer(folder);
  if (path.empty()) return std::optional<TextModel>();
  COLIBRI_ASSIGN(TextModel model, from_file(path));
  return std::optional<TextModel>(std::move(model));
}

Result<TextModel> TextModel::from_file(const std::string& path) {
  const std::string folder = platform::parent(path);
  TextModel model;
  model.source_ = path;
  COLIBRI_ASSIGN(const std::string bytes, platform::read_text_file(path, kMaxTokenizerBytes));
  COLIBRI_ASSIGN(const Json config, read_tokenizer_config(folder));
  COLIBRI_ASSIGN(model.tokenizer_, reader_of(path)(bytes, config, path));
  model.read_special_tokens(config);
  COLIBRI_TRY(model.add_template_files(folder, config));
  return model;
}

Result<TextModel> TextModel::from_gguf(const formats::TensorCatalog& catalog) {
  TextModel model;
  model.source_ = catalog.files().front().path();
  const text::GgufVocabulary vocabulary = vocabulary_of(catalog.metadata());
  COLIBRI_ASSIGN(model.tokenizer_, text::Tokenizer::from_gguf(vocabulary, model.source_));
  const auto text_of = [&](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(vocabulary.tokens.size()) ? vocabulary.tokens[static_cast<size_t>(id)]
                                                                          : "";
  };
  if (const std::string bos = text_of(vocabulary.bos_id); !bos.empty()) model.special_tokens_.set("bos_token", bos);
  if (const std::string eos = text_of(vocabulary.eos_id); !eos.empty()) model.special_tokens_.set("eos_token", eos);
  const Json* source = catalog.metadata().find_value("tokenizer.chat_template");
  if (source != nullptr && source->is_string())
    model.set_template(source->as_string(), model.source_ + " tokenizer.chat_template");
  const Json* tool_use = catalog.metadata().find_value("tokenizer.chat_template.tool_use");
  model.set_tool_template(template_text(tool_use), model.source_ + " tokenizer.chat_template.tool_use");
  return model;
}

Result<std::optional<TextModel>> TextModel::of_model(const std::string& path, const formats::TensorCatalog& catalog) {
  if (catalog.metadata().find_value("tokenizer.ggml.tokens") == nullptr) return from_folder(model::model_folder(path));
  COLIBRI_ASSIGN(TextModel text, from_gguf(catalog));
  return std::optional<TextModel>(std::move(text));
}

// A folder without a tokenizer's file may still hold a GGUF file with the vocabulary in its metadata; when it holds no
// model at all, that is the better thing to say.
Result<TextModel> TextModel::open_folder(const std::string& folder) {
  COLIBRI_ASSIGN(std::optional<TextModel> found, from_folder(folder));
  if (found) return *std::move(found);
  COLIBRI_ASSIGN(const formats::TensorCatalog catalog, formats::open_catalog(folder));
  if (catalog.format() == formats::Format::kGguf) return from_gguf(catalog);
  return Error{ErrorCode::kInvalidModel, folder + ": holds no tokenizer (looked for " + tokenizer_file_names() +
                                             "); copy it from the model's repository"};
}

Result<TextModel> TextModel::open_path(const std::string& path) {
  if (platform::is_directory(path)) return open_folder(path);
  if (!platform::exists(path)) return Error{ErrorCode::kInvalidModel, path + ": no such file or folder"};
  if (reader_of(path) != nullptr) return from_file(path);
  COLIBRI_ASSIGN(const formats::TensorCatalog catalog, formats::open_catalog(path));
  return catalog.format() == formats::Format::kGguf ? from_gguf(catalog) : open_folder(platform::parent(path));
}

Result<TextModel> TextModel::open(const std::string& path, const std::string& template_file) {
  TextModel model;
  if (!path.empty()) {
    COLIBRI_ASSIGN(model, open_path(path));
  }
  if (!template_file.empty()) {
    COLIBRI_ASSIGN(const std::string source, platform::read_text_file(template_file, kMaxTemplateBytes));
    model.set_template(source, template_file);
    if (!model.chat_template_) return Error{ErrorCode::kInvalidModel, model.template_problem_};
  }
  return model;
}

Result<std::string> TextModel::apply_template(const Json& request, int64_t now_seconds) const {
  if (!chat_template_)
    return Error{ErrorCode::kInvalidModel, (source_.empty() ? "" : source_ + ": ") + template_problem_};
  const Json* messages = request.find("messages");
  if (messages == nullptr || !messages->is_array())
    return Error{ErrorCode::kUsage, "the request needs \"messages\", a list"};
  // The order of precedence of transformers: special tokens, then what the caller says.
  Json context = special_tokens_;
  context.set("tools", nullptr);
  context.set("documents", nullptr);
  for (const auto& [key, value] : request.as_object())
    if (key != "chat_template_kwargs") context.set(key, value);
  if (const Json* kwargs = request.find_value("chat_template_kwargs"); kwargs != nullptr && kwargs->is_object())
    for (const auto& [key, value] : kwargs->as_object()) context.set(key, value);
  text::RenderOptions options;
  options.now_seconds = now_seconds;
  if (const Json* choice = request.find_value("tool_choice"); choice != nullptr && *choice == Json("none"))
    context.set("tools", nullptr);
  const LoadedTemplate& chosen = template_for(context.find_value("tools") != nullptr);
  context.set("messages", text::messages_for_template(*context.find("messages"), chosen.form));
  return chosen.chat.render(context, options);
}

namespace {

// Days from 1970-01-01 to a date of the Gregorian calendar (Howard Hinnant's algorithm, public domain).
int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

int64_t days_in_month(int64_t year, int64_t month) {
  return month == 12 ? 31 : days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1);
}

bool take_digits(std::string_view& text, size_t count, int64_t& value) {
  if (text.size() < count) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, value);
  if (error != std::errc() || end != text.data() + count || value < 0) return false;
  text.remove_prefix(count);
  return true;
}

bool take_mark(std::string_view& text, std::string_view marks) {
  if (text.empty() || marks.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Result<int64_t> parse_iso_time(std::string_view text) {
  const Error error{ErrorCode::kUsage,
                    "\"" + std::string(text.substr(0, 60)) + "\" is no time; expected 2026-02-03T04:05:06"};
  std::string_view rest = text;
  int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!take_digits(rest, 4, year) || !take_mark(rest, "-") || !take_digits(rest, 2, month) || !take_mark(rest, "-") ||
      !take_digits(rest, 2, day))
    return error;
  if (!rest.empty()) {
    if (!take_mark(rest, "T ") || !take_digits(rest, 2, hour) || !take_mark(rest, ":") || !take_digits(rest, 2, minute))
      return error;
    if (take_mark(rest, ":") && !take_digits(rest, 2, second)) return error;
    if (rest == "Z") rest = {};
  }
  if (!rest.empty() || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
      minute > 59 || second > 60)
    return error;
  return days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
}

int64_t local_now_seconds() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

}  // namespace colibri::engine
