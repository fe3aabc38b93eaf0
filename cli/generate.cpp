// smelt generate: continue a text.
#include "smelt/infer/generate.h"

#include <fmt/format.h>

#include <memory>

#include "cli/checkpoint.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/file.h"
#include "smelt/model/weights.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string model, prompt, prompt_file;
  infer::GenerateOptions generate;
  int threads = 0;
};

Json result_json(const infer::Generation& out, const Options& options, const std::string& prompt,
                 const ModelFolder& model) {
  const auto rate = [](std::size_t tokens, double seconds) {
    return seconds > 0 ? Json(static_cast<double>(tokens) / seconds) : Json();
  };
  Json json = {{"schema", "smelt.generate/1"}, {"model", model.folder.string()}};
  const Json flags = fields_to_json(options.generate);
  for (const auto& [name, value] : flags.items()) json[name] = value;
  json["prompt"] = prompt;
  json["text"] = out.text;
  json["stop"] = enum_name(out.stop);
  json["prompt_tokens"] = out.prompt_tokens;
  json["tokens"] = out.tokens;
  json["prefill_tokens_per_second"] = rate(out.prompt_tokens.size(), out.prefill_seconds);
  json["decode_tokens_per_second"] = rate(out.tokens.size(), out.decode_seconds);
  return json;
}

void run(Session& session, const Options& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  const std::string prompt =
      options.prompt_file.empty() ? options.prompt : read_file(options.prompt_file);
  const ModelFolder model = find_model(options.model);
  const auto tokenizer = data::Tokenizer::load(tokenizer_file(model));
  const auto decoder = model::load_decoder(model.folder);
  watch_signals();
  const bool stream = !session.json;
  if (stream) print(prompt);
  const auto out =
      infer::generate(decoder, tokenizer, prompt, options.generate, [&](std::string_view piece) {
        if (stream) print(std::string(piece));
        return signal_seen() == 0;
      });
  if (stream) {
    print("\n");
  } else {
    Json json = result_json(out, options, prompt, model);
    // A prompt that is not UTF-8 goes out with U+FFFD for its broken bytes.
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (signal_seen() != 0) session.exit_code = 128 + signal_seen();
}

}  // namespace

void add_generate(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "generate", "Continue a text with a trained model",
                            "smelt generate runs/a --prompt \"def add(a, b):\" --max-tokens 60");
  auto options = std::make_shared<Options>();
  verb.add_option(
          "MODEL", options->model,
          "run, checkpoint, or folder with config.json, model.safetensors and tokenizer.model")
      ->required();
  auto* prompt = verb.add_option("--prompt", options->prompt, "text to continue");
  auto* file =
      verb.add_option("--prompt-file", options->prompt_file, "file with the text to continue");
  prompt->excludes(file);
  add_flags(verb, options->generate);
  verb.add_option("--threads", options->threads, "threads (0 = all cores)")->check(within(0, 1024));
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
