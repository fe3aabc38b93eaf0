// smelt probe: what a model's layers do, and what the second visit does differently.
#include "smelt/probe/probe.h"

#include <fmt/format.h>

#include <memory>

#include "cli/checkpoint.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/file.h"
#include "smelt/eval/evaluate.h"
#include "smelt/model/weights.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string model, store, tokens_json, out;
  data::Pool pool = data::Pool::kValidation;
  std::int64_t tokens = 100000;
  std::int64_t window = 0;
  probe::ProbeOptions probe;
  int threads = 0;
};

/// The batch of a case's tokens.json: "tokens" and "segment_ids", integers [rows][row length].
model::Batch read_batch(const std::string& file, std::int64_t vocab_size) {
  using Rows = std::vector<std::vector<std::int64_t>>;
  const Json json = read_json(file);
  const auto tokens = json_get<Rows>(json, "tokens", file);
  const auto segments = json_get<Rows>(json, "segment_ids", file);
  if (tokens.empty() || tokens.size() != segments.size()) {
    throw Error(
        "probe",
        fmt::format(
            "expected as many rows of segment_ids as of tokens, at least one; got {} and {}",
            segments.size(), tokens.size()),
        file);
  }
  std::vector<std::int64_t> flat_tokens, flat_segments;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    if (tokens[r].size() != tokens[0].size() || segments[r].size() != tokens[0].size()) {
      throw Error("probe", fmt::format("row {} has another length than row 0", r), file);
    }
    flat_tokens.insert(flat_tokens.end(), tokens[r].begin(), tokens[r].end());
    flat_segments.insert(flat_segments.end(), segments[r].begin(), segments[r].end());
  }
  return model::make_batch(flat_tokens, flat_segments, static_cast<std::int64_t>(tokens.size()),
                           static_cast<std::int64_t>(tokens[0].size()), vocab_size);
}

/// Held-out documents of the store, about `tokens` of them.
probe::BatchSource read_store(const Options& options, const ModelFolder& model,
                              std::int64_t vocab_size, std::int64_t& total) {
  const auto window = options.window > 0 ? std::optional(options.window) : row_length(model);
  if (!window) {
    throw Error(
        "probe",
        "the window is not known: the model has no run.toml with [data] row_length; give --window",
        model.folder.string());
  }
  const auto store = data::TokenStore::open(options.store);
  if (store.vocab_size() > vocab_size) {
    throw Error("probe",
                fmt::format("the store has token ids below {}, the model a vocabulary of {}",
                            store.vocab_size(), vocab_size),
                store.folder().string());
  }
  auto documents = eval::select_documents(store, options.pool, options.tokens);
  for (const std::uint64_t d : documents) {
    // Every piece of a cut document starts with a BOS of its own.
    const auto targets = static_cast<std::int64_t>(store.documents()[d].length) - 1;
    total += targets + (targets + *window - 2) / (*window - 1);
  }
  return probe::store_batches(store, std::move(documents), *window, vocab_size);
}

void run(Session& session, const Options& options) {
  if (options.store.empty() == options.tokens_json.empty()) {
    throw CLI::ValidationError("probe", "give --store or --tokens-json");
  }
  if (options.threads > 0) at::set_num_threads(options.threads);
  const ModelFolder model = find_model(options.model);
  const auto decoder = model::load_decoder(model.folder);
  const std::int64_t vocab_size = decoder.config.vocab_size;
  std::int64_t total = 0;
  const probe::BatchSource batches =
      options.tokens_json.empty()
          ? read_store(options, model, vocab_size, total)
          : probe::single_batch(read_batch(options.tokens_json, vocab_size));
  const auto result = probe::probe(
      decoder, batches, options.probe, [&](const ProgressEvent& event) { session.progress(event); },
      total);
  session.progress.finish();
  Json json = probe::to_json(result);
  json["model"] = model.folder.string();
  if (!options.out.empty()) write_file_atomic(options.out, to_text(json));
  print_result(session, json, probe::text(result));
}

}  // namespace

void add_probe(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "probe",
                            "What a model's layers do, and what the second visit does differently",
                            "smelt probe runs/a --store data/quick --tokens 50000");
  auto options = std::make_shared<Options>();
  verb.add_option("MODEL", options->model,
                  "run, checkpoint, or folder with config.json and model.safetensors")
      ->required();
  verb.add_option("--store", options->store, "token store to take documents from");
  verb.add_option(
      "--tokens-json", options->tokens_json,
      "instead of a store: JSON with \"tokens\" and \"segment_ids\", [rows][row length]");
  verb.add_option_function<std::string>(
          "--pool",
          [options](const std::string& name) { options->pool = *enum_from<data::Pool>(name); },
          "documents to look at")
      ->check(CLI::IsMember(enum_choices<data::Pool>()))
      ->default_str("validation");
  verb.add_option("--tokens", options->tokens,
                  "look at a fixed sample of documents of about this size (0 = all)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--window", options->window, "most tokens of a document at once")
      ->check(within(2, 1 << 30))
      ->default_str("row length of the run");
  add_flags(verb, options->probe);
  verb.add_option("--out", options->out, "write the result as JSON to this file");
  verb.add_option("--threads", options->threads, "threads (0 = all cores)")->check(within(0, 1024));
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
