// smelt eval: validation loss of a model, overall, per source, domain and document length.
#include "smelt/eval/evaluate.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/checkpoint.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/file.h"
#include "smelt/core/hash.h"
#include "smelt/core/table.h"
#include "smelt/model/weights.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string model, store, out, documents_csv;
  eval::EvalOptions eval;
  bool window_given = false;
  int threads = 0;
};

/// The store must hold the ids of the model's own tokenizer.
void check_tokenizer(Session& session, const ModelFolder& model, const data::TokenStore& store) {
  const auto own = model.folder / "tokenizer.model", theirs = store.folder() / "tokenizer.model";
  if (!std::filesystem::exists(own) || !std::filesystem::exists(theirs)) {
    warn(session,
         fmt::format("no tokenizer.model in {}: not checked that the store's ids are the model's",
                     (std::filesystem::exists(own) ? store.folder() : model.folder).string()));
  } else if (hash_file(own) != hash_file(theirs)) {
    throw Error("eval", "the store was encoded with another tokenizer than " + own.string(),
                theirs.string());
  }
}

std::string groups_text(const std::string& what, const std::vector<eval::GroupLoss>& groups,
                        bool with_domain) {
  std::vector<std::string> header = {what, "documents", "tokens", "loss"};
  if (with_domain) header.insert(header.begin() + 1, "domain");
  Table table(header);
  for (const eval::GroupLoss& group : groups) {
    if (group.documents == 0) continue;
    std::vector<std::string> row = {group.name + (group.up_to != 0 || group.name[0] == '>'
                                                      ? (group.cut_documents > 0 ? " (cut)" : "")
                                                      : ""),
                                    with_commas(static_cast<double>(group.documents)),
                                    with_commas(static_cast<double>(group.tokens)),
                                    fmt::format("{:.4f}", group.loss())};
    if (with_domain) row.insert(row.begin() + 1, group.domain);
    table.add_row(row);
  }
  return table.text();
}

std::string text(const eval::EvalResult& result) {
  std::string text =
      fmt::format("loss {:.4f} nats per token over {} tokens of {} {} documents (window {})\n",
                  result.overall.loss(), with_commas(static_cast<double>(result.overall.tokens)),
                  with_commas(static_cast<double>(result.overall.documents)),
                  enum_name(result.options.pool), result.options.window);
  if (result.nats_per_byte)
    text += fmt::format("{:.4f} nats per byte of text\n", *result.nats_per_byte);
  return text + "\n" + groups_text("domain", result.domains, false) + "\n" +
         groups_text("source", result.sources, true) + "\n" +
         groups_text("document length", result.lengths, false);
}

void run(Session& session, Options& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  const ModelFolder model = find_model(options.model);
  if (!options.window_given) {
    const auto trained = row_length(model);
    if (!trained) {
      throw Error("eval",
                  "the window is not known: the model has no run.toml with [data] row_length; give "
                  "--window",
                  model.folder.string());
    }
    options.eval.window = *trained;
  }
  const auto store = data::TokenStore::open(options.store);
  check_tokenizer(session, model, store);
  const auto decoder = model::load_decoder(model.folder);
  const auto result = eval::evaluate(decoder, store, options.eval,
                                     [&](const ProgressEvent& event) { session.progress(event); });
  session.progress.finish();
  Json json = eval::to_json(result);
  json["model"] = model.folder.string();
  if (!options.out.empty()) write_file_atomic(options.out, to_text(json));
  if (!options.documents_csv.empty()) {
    write_file_atomic(options.documents_csv, eval::documents_csv(result));
  }
  print_result(session, json, text(result));
}

}  // namespace

void add_eval(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "eval",
                            "Validation loss of a model, per source, domain and document length",
                            "smelt eval runs/a --store data/quick --documents-csv documents.csv");
  auto options = std::make_shared<Options>();
  verb.add_option("MODEL", options->model,
                  "run, checkpoint, or folder with config.json and model.safetensors")
      ->required();
  verb.add_option("--store", options->store, "token store to score")->required();
  add_flags(verb, options->eval);
  CLI::Option* window = verb.get_option("--window")->default_str("row length of the run");
  verb.add_option("--out", options->out, "write the result as JSON to this file");
  verb.add_option("--documents-csv", options->documents_csv,
                  "write one row per document, to pair two models");
  verb.add_option("--threads", options->threads, "threads (0 = all cores)")->check(within(0, 1024));
  verb.callback([&session, options, window] {
    options->window_given = window->count() > 0;
    run(session, *options);
  });
}

}  // namespace smelt::cli
