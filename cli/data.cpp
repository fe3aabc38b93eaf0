// smelt data: text to a token store, a look at one, a check of one, ids of a text and back.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/data/build.h"
#include "smelt/data/rows.h"
#include "smelt/data/summary.h"
#include "smelt/data/token_store.h"
#include "smelt/data/tokenizer.h"

namespace smelt::cli {
namespace {

using data::GroupSummary;
using data::Pool;
using data::Tokenizer;
using data::TokenStore;

std::string count_text(std::uint64_t value) {
  return with_commas(static_cast<double>(value));
}

// ---- build

struct BuildArguments {
  std::vector<std::string> inputs;
  std::string out;
  bool force = false;
  data::DataOptions options;
};

void build(Session& session, const BuildArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto built = data::build_store(
      {arguments.inputs.begin(), arguments.inputs.end()}, arguments.out, arguments.options,
      arguments.force, [&](const ProgressEvent& event) { session.progress(event); },
      [&](const std::string& line) { warn(session, line); });
  session.progress.finish();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Json& manifest = built.manifest;
  if (session.json) {
    Json json = {{"schema", "smelt.data.build/1"},
                 {"store", arguments.out},
                 {"already_built", built.already_built},
                 {"seconds", seconds}};
    for (const char* key : {"fingerprint", "dtype", "vocab_size", "documents", "tokens",
                            "text_bytes", "counts", "byte_fallback_tokens", "left_out"}) {
      if (manifest.contains(key)) json[key] = manifest[key];
    }
    print_json(json);
    return;
  }
  const Json& pools = manifest["counts"]["pools"];
  print(fmt::format("{} {}: {} documents, {} tokens, vocabulary {}, fingerprint {}\n",
                    built.already_built ? "already built" : "built", arguments.out,
                    count_text(manifest["documents"]), count_text(manifest["tokens"]),
                    manifest["vocab_size"].get<std::int64_t>(),
                    manifest["fingerprint"].get<std::string>()));
  Table table({"pool", "documents", "tokens"});
  for (const auto& [name, pool] : pools.items()) {
    table.add_row({name, count_text(pool["documents"]), count_text(pool["tokens"])});
  }
  print(table.text());
}

void add_build(CLI::App& verb, Session& session) {
  auto& build_verb = new_verb(verb, session, "build", "Text to a token store",
                              "smelt data build data/corpus --out data/quick --vocab-size 4096");
  auto arguments = std::make_shared<BuildArguments>();
  build_verb
      .add_option("INPUT", arguments->inputs,
                  "JSONL files (.gz, .zst too), text files, or folders of them")
      ->required();
  build_verb.add_option("--out", arguments->out, "folder of the store")->required();
  build_verb.add_flag("--force", arguments->force, "rebuild a store that was made otherwise");
  add_flags(build_verb, arguments->options);
  build_verb.callback([&session, arguments] { build(session, *arguments); });
}

// ---- show

struct ShowArguments {
  std::string store;
  std::int64_t row_length = 512;
};

Table summary_table(const std::vector<GroupSummary>& groups, bool sources) {
  std::vector<std::string> header = {sources ? "source" : "domain"};
  if (sources) header.push_back("domain");
  for (const char* name : {"documents", "tokens", "bytes/token", "p10", "p50", "p90", "p99",
                           "stable", "decay", "tuning", "validation"}) {
    header.emplace_back(name);
  }
  Table table(header);
  for (const GroupSummary& group : groups) {
    std::vector<std::string> row = {group.name};
    if (sources) row.push_back(group.domain);
    row.push_back(count_text(group.documents));
    row.push_back(count_text(group.tokens));
    row.push_back(fmt::format("{:.2f}", group.bytes_per_token()));
    for (const std::uint64_t length : group.length_percentiles) row.push_back(count_text(length));
    for (const std::uint64_t tokens : group.pool_tokens) row.push_back(count_text(tokens));
    table.add_row(row);
  }
  return table;
}

void show(Session& session, const ShowArguments& arguments) {
  const TokenStore store = TokenStore::open(arguments.store);
  const data::StoreSummary summary = data::summarize(store);
  const Json& manifest = store.manifest();
  const bool trains = store.token_count(Pool::kStable) + store.token_count(Pool::kDecay) > 0;
  const double attended = trains ? data::mean_attended(store, arguments.row_length) : 0;
  const Json byte_tokens = manifest.value("byte_fallback_tokens", Json::object());
  if (session.json) {
    Json json = {{"schema", "smelt.data.show/1"},      {"store", arguments.store},
                 {"fingerprint", store.fingerprint()}, {"dtype", manifest["dtype"]},
                 {"vocab_size", store.vocab_size()},   {"row_length", arguments.row_length}};
    if (trains) json["mean_attended"] = attended;
    json["all"] = to_json(summary.all);
    for (const GroupSummary& group : summary.domains) {
      json["domains"].push_back(to_json(group));
      if (byte_tokens.contains(group.name)) {
        json["domains"].back()["byte_fallback_tokens"] = byte_tokens[group.name];
      }
    }
    for (const GroupSummary& group : summary.sources) json["sources"].push_back(to_json(group));
    print_json(json);
    return;
  }
  std::vector<GroupSummary> domains = summary.domains;
  domains.push_back(summary.all);
  print(fmt::format("{}: fingerprint {}, {} pieces, {} tokens as {}\n\n", arguments.store,
                    store.fingerprint(), store.vocab_size(), count_text(store.token_count()),
                    manifest["dtype"].get<std::string>()));
  print(summary_table(domains, false).text() + "\n" + summary_table(summary.sources, true).text());
  print(
      "\np10 … p99: tokens per document; stable … validation: tokens; bytes/token: without BOS and "
      "EOS\n");
  for (const auto& [domain, count] : byte_tokens.items()) {
    for (const GroupSummary& group : summary.domains) {
      if (group.name != domain || group.tokens == 0) continue;
      print(fmt::format("byte fallback in {}: {:.2f} % of tokens\n", domain,
                        100 * count.get<double>() / static_cast<double>(group.tokens)));
    }
  }
  if (trains) {
    print(fmt::format(
        "a token attends to {:.1f} positions on average in rows of {} (training pools)\n", attended,
        arguments.row_length));
  }
}

void add_show(CLI::App& verb, Session& session) {
  auto& show_verb =
      new_verb(verb, session, "show", "What a token store holds", "smelt data show data/quick");
  auto arguments = std::make_shared<ShowArguments>();
  show_verb.add_option("STORE", arguments->store, "folder of the store")->required();
  show_verb
      .add_option("--row-length", arguments->row_length,
                  "row length for the mean of attended positions [tokens]")
      ->check(within(1, 1 << 30))
      ->capture_default_str();
  show_verb.callback([&session, arguments] { show(session, *arguments); });
}

// ---- check

void check(Session& session, const std::string& folder) {
  Json json = {{"schema", "smelt.data.check/1"},
               {"store", folder},
               {"passed", true},
               {"problems", Json::array()}};
  try {
    const TokenStore store = TokenStore::open(folder);
    store.verify();
    json["fingerprint"] = store.fingerprint();
    if (!session.json) {
      print(fmt::format(
          "{}: good; {} documents, {} tokens, every hash as written, no held-out text in "
          "training\n",
          folder, count_text(store.documents().size()), count_text(store.token_count())));
    }
  } catch (const Error& error) {
    if (!session.json) throw;
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) json["problems"].push_back(line);
    json["passed"] = false;
    session.exit_code = 1;
  }
  if (session.json) print_json(json);
}

void add_check_store(CLI::App& verb, Session& session) {
  auto& check_verb = new_verb(verb, session, "check",
                              "Verify hashes, ids and that held-out text is not trained on",
                              "smelt data check data/quick");
  auto folder = std::make_shared<std::string>();
  check_verb.add_option("STORE", *folder, "folder of the store")->required();
  check_verb.callback([&session, folder] { check(session, *folder); });
}

// ---- encode, decode

struct CodeArguments {
  std::string model;
  std::string text;
  bool text_given = false;
  std::vector<std::int64_t> ids;
};

std::string read_stdin() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void encode(Session& session, const CodeArguments& arguments) {
  const Tokenizer tokenizer = Tokenizer::load(arguments.model);
  const std::string text = arguments.text_given ? arguments.text : read_stdin();
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (session.json) {
    Json json = {{"schema", "smelt.data.encode/1"}, {"ids", ids}, {"pieces", Json::array()}};
    for (const std::int32_t id : ids) json["pieces"].push_back(tokenizer.piece(id));
    print_json(json);
    return;
  }
  print(fmt::format("{}\n", fmt::join(ids, " ")));
}

std::vector<std::int64_t> ids_from_stdin() {
  std::istringstream words(read_stdin());
  std::vector<std::int64_t> ids;
  for (std::string word; words >> word;) {
    std::size_t used = 0;
    std::int64_t id = 0;
    try {
      id = std::stoll(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size())
      throw Error("data", "expected token ids, got \"" + word + "\"", "stdin");
    ids.push_back(id);
  }
  return ids;
}

void decode(Session& session, const CodeArguments& arguments) {
  const Tokenizer tokenizer = Tokenizer::load(arguments.model);
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : arguments.ids.empty() ? ids_from_stdin() : arguments.ids) {
    if (id < 0 || id >= tokenizer.vocab_size()) {
      throw Error(
          "data",
          fmt::format("token id {} is outside the vocabulary of {}", id, tokenizer.vocab_size()),
          arguments.model);
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  const std::string text = tokenizer.decode(ids);
  if (!session.json) {
    print(text);
    return;
  }
  // JSON holds UTF-8 only: bytes of a cut character become U+FFFD.
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  print_json(Json{{"schema", "smelt.data.decode/1"}, {"text", Json::parse(quoted)}});
}

void add_code(CLI::App& verb, Session& session) {
  auto arguments = std::make_shared<CodeArguments>();
  auto& encode_verb = new_verb(verb, session, "encode", "Token ids of a text (no BOS, no EOS)",
                               "smelt data encode data/quick --text 'x = 1'");
  encode_verb
      .add_option("STORE", arguments->model, "store, checkpoint or sentencepiece .model file")
      ->required();
  CLI::Option* text =
      encode_verb.add_option("--text", arguments->text, "the text (default: stdin)");
  encode_verb.callback([&session, arguments, text] {
    arguments->text_given = text->count() > 0;
    encode(session, *arguments);
  });
  auto& decode_verb = new_verb(verb, session, "decode", "Text of token ids",
                               "smelt data decode data/quick 17 301 4");
  decode_verb
      .add_option("STORE", arguments->model, "store, checkpoint or sentencepiece .model file")
      ->required();
  decode_verb.add_option("ID", arguments->ids, "token ids (default: stdin)");
  decode_verb.callback([&session, arguments] { decode(session, *arguments); });
}

}  // namespace

void add_data(CLI::App& program, Session& session) {
  CLI::App* verb = program.add_subcommand(
      "data", "corpora and token stores: build, show, check, encode, decode");
  verb->require_subcommand(1);
  verb->footer("Example:\n  smelt data build data/corpus --out data/quick");
  add_build(*verb, session);
  add_show(*verb, session);
  add_check_store(*verb, session);
  add_code(*verb, session);
}

}  // namespace smelt::cli
