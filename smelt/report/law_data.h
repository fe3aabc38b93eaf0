// What a study says about its laws: both arms' laws and the endpoints behind them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "smelt/law/form.h"
#include "smelt/report/study_data.h"

namespace smelt::report {

struct Laws {
  std::map<std::string, law::Law> by_arm;
  std::map<std::string, std::vector<law::Law>> drawn;  // by the bootstrap, where it was kept
  std::vector<std::string> words;                      // why there are none
};

/// Both laws when the study says they are identifiable and they can be read.
Laws read_laws(const Study& study);

struct Endpoint {
  std::string arm, cell;
  std::optional<double> flops, sparsity, tokens, loss, parameters;

  std::optional<double> compute() const {
    return flops && tokens ? std::optional(*flops * *tokens) : std::nullopt;
  }
};
std::vector<Endpoint> endpoints_of(const Study& study);

/// The loss of the arm's law at an endpoint's size and sparsity and at `tokens`; nothing without a
/// law.
std::optional<double> fitted(const Laws& laws, const Endpoint& at, double tokens);

/// "S = 0.85".
std::string sparsity_name(double sparsity);

}  // namespace smelt::report
