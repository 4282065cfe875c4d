#include "text/tokenizer.h"

#include "text/tables.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

/// One call of encode(): its memory and its result.
class Encoding {
 public:
  Encoding(const Tokenizer::Tables& tables, bool parse_special) : tables_(tables), parse_special_(parse_special) {}

  TokenIds run(std::string_view text, bool add_special) {
    if (add_special) ids_ = tables_.prefix;
    std::string storage;
    text = valid_utf8(text, storage);
    each_section(text, false, [this](std::string_view section, bool at_start) { add_raw(section, at_start); });
    if (add_special) ids_.insert(ids_.end(), tables_.suffix.begin(), tables_.suffix.end());
    return std::move(ids_);
  }

 private:
  /// Adds the added tokens in `text`, and calls visit(text, is at the start) for what stands between them.
  template <typename Visit>
  void each_section(std::string_view text, bool normalized, Visit visit) {
    std::vector<TextSection> sections;
    tables_.added.split(text, normalized, parse_special_, sections);
    for (const auto& [begin, end, id] : sections) {
      if (id >= 0) {
        ids_.push_back(id);
      } else {
        visit(text.substr(begin, end - begin), begin == 0);
      }
    }
  }

  void add_raw(std::string_view text, bool at_start) {
    std::string normalized(text);
    tables_.normalizer.apply(normalized, workspace_);
    each_section(normalized, true,
                 [&](std::string_view section, bool first) { add_normalized(section, at_start && first); });
  }

  void add_normalized(std::string_view text, bool at_start) {
    pieces_.text = text;
    pieces_.at_start = at_start;
    tables_.pre_tokenizer.split(pieces_, workspace_);
    for (const Pieces::Span span : pieces_.spans) tables_.model.encode(pieces_.view(span), scratch_, ids_);
  }

  const Tokenizer::Tables& tables_;
  const bool parse_special_;
  RegexWorkspace workspace_;
  TokenModelScratch scratch_;
  Pieces pieces_;
  TokenIds ids_;
};

}  // namespace

Result<Tokenizer> Tokenizer::from_tables(Result<std::unique_ptr<Tables>> tables, const std::string& source) {
  if (!tables.ok()) return std::move(tables).with_context(source).error();
  return Tokenizer(std::move(tables).value());
}

TokenIds Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  return Encoding(*tables_, options.parse_special).run(text, options.add_special);
}

std::string Tokenizer::decode(const TokenIds& ids, bool skip_special) const {
  DecodeStream stream(tables_->decoder, tables_->longest_spelling);
  std::string out;
  for (const TokenId id : ids) {
    const std::string_view text = spelling(id);
    if (!text.empty() && !(skip_special && is_special(id))) stream.push(text, out);
  }
  stream.finish(out);
  return out;
}

int32_t Tokenizer::vocab_size() const { return tables_->vocab_size; }

TokenId Tokenizer::find(std::string_view token) const {
  const AddedToken* added = tables_->added.find(token);
  return added ? added->id : tables_->model.vocabulary().find(token);
}

std::string_view Tokenizer::spelling(TokenId id) const {
  const AddedToken* added = tables_->added.find(id);
  return added ? std::string_view(added->content) : tables_->model.vocabulary().spelling(id);
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* added = tables_->added.find(id);
  return added && added->special;
}

std::string Tokenizer::bytes(TokenId id) const {
  std::string out;
  if (const std::string_view text = spelling(id); !text.empty()) tables_->decoder.append_bytes(text, out);
  return out;
}

const std::string& Tokenizer::note() const { return tables_->note; }
TokenId Tokenizer::bos_id() const { return tables_->bos; }
TokenId Tokenizer::eos_id() const { return tables_->eos; }

}  // namespace colibri::text
