// Endpoint tables: one row per finished training run (or decay branch), as `smelt study` writes
// them and anyone can write by hand:
// arch,scale,sparsity,sparsity_own,cell,seed,flops_per_token,tokens,loss,…
//
//   Endpoints table = read_endpoints("endpoints.csv");
//   std::vector<Point> points = table.points("smelt");        // the rows of one arm
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/csv.h"
#include "smelt/law/form.h"

namespace smelt::law {

/// One endpoint for a fit.
struct Point {
  double size = 0;                   // F or N, as the form wants it
  double sparsity = 0;               // S in [0, 1)
  double tokens = 0;                 // D
  double loss = 0;                   // nats per token
  double weight = 1;                 // 1 / sigma^2, any common factor
  double recurrent = 0, visits = 1;  // N_rec and r, of the form "recurrence"
  double experts = 1;                // X
  std::string cell;                  // unit of the cell bootstrap
  std::int64_t seed = 0;
  std::string group;  // arm
  std::string where;  // "endpoints.csv:17", for messages

  Inputs inputs() const { return {size, sparsity, tokens, recurrent, visits, experts}; }
};

/// Which columns hold what.  A column that is not there is filled with its default (weight 1,
/// sparsity 0, seed 0, one group; cell = size and sparsity of the row); loss, size and what else
/// `needs` names have to be there.
struct Columns {
  std::string size = "flops_per_token";
  std::string sparsity = "sparsity";
  std::string tokens = "tokens";
  std::string loss = "loss";
  std::string recurrent = "recurrent_params";
  std::string visits = "visits";
  std::string experts = "experts";
  std::string weight = "weight";
  std::string cell = "cell";
  std::string seed = "seed";
  std::string group = "arch";
  bool needs_tokens = true, needs_visits = false, needs_experts = false;
  std::vector<std::string>
      named;  // by the user: never guessed, and missed where they are not there
};

/// The columns that a form reads, under their usual names.
Columns columns_of(const Form& form);

/// "N=params,D=tokens,loss=final_loss" over `base`; keys F, N, C, S, D, N_rec, r, X, loss, weight,
/// cell, seed, group (or arch).  Throws Error, also for a key that is given twice.
Columns parse_columns(const std::vector<std::string>& assignments, Columns base = {});

/// Columns that are not there under the name wanted are looked for under other names in use
/// ("final_loss"); one message for each that was found.  Several candidates are an Error.
Columns guess_columns(const Csv& csv, Columns columns, const Form& form,
                      std::vector<std::string>& messages);

struct Endpoints {
  Csv csv;                  // everything, extra columns as they are
  std::vector<Point> rows;  // row i of the CSV

  /// The groups in order of appearance.
  std::vector<std::string> groups() const;
  /// Rows of one group; throws Error listing the groups when there are none.
  std::vector<Point> points(std::string_view group) const;
};

/// Throws one Error with every bad cell by row and column: missing, not a number, out of range.
Endpoints read_endpoints(const std::filesystem::path& file, const Columns& columns = {});
Endpoints endpoints_from(Csv csv, const Columns& columns = {});

}  // namespace smelt::law
