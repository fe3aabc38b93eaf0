// The rows that fit and gain work on: files, columns, and what is left out of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "smelt/law/endpoints.h"
#include "smelt/law/rows.h"

namespace smelt::cli {

struct RowFlags {
  std::vector<std::string> files, columns, where;
  bool exclude_controls = false;

  Csv read() const { return law::read_rows({files.begin(), files.end()}); }
};

/// The columns that a form wants, under the names that the flags give or that the table uses;
/// `group` over "arch".  What was guessed is said.
inline law::Columns columns_for(Session& session, const Csv& rows, const law::Form& form,
                                const RowFlags& flags, const std::string& group = "") {
  law::Columns wanted = law::columns_of(form);
  if (!group.empty()) wanted.group = group;
  std::vector<std::string> messages;
  const law::Columns columns = law::guess_columns(
      rows, law::parse_columns(flags.columns, std::move(wanted)), form, messages);
  for (const std::string& message : messages) warn(session, message);
  return columns;
}

/// What a selection left out, each reason with its number of rows.
struct Selection {
  law::Endpoints kept, all;
  Json excluded = Json::array();  // {"where", "rows"}
  std::string text;               // a line per reason
};

inline void add_row_flags(CLI::App& verb, RowFlags& flags) {
  verb.add_option(
          "--columns", flags.columns,
          "which columns hold what, as N=params,D=tokens,loss=final_loss; keys F, N, C, S, D, "
          "N_rec, r, X, loss, weight, cell, seed, group (common names are found)")
      ->delimiter(',');
  verb.add_option("--where", flags.where,
                  "keep only rows for which this holds, as 'tokens >= 1e9'; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_flag("--exclude-controls", flags.exclude_controls,
                "leave out rows with S = 0, as the paper does");
}

/// `rows` under `columns`, with and without what the flags leave out.
inline Selection select_rows(Csv rows, const RowFlags& flags, const law::Columns& columns) {
  Selection selection;
  const auto say = [&selection](const std::string& what, std::size_t count) {
    selection.excluded.push_back({{"where", what}, {"rows", count}});
    selection.text += std::to_string(count) + " rows left out: " + what + "\n";
  };
  Csv kept = rows;
  for (const std::string& text : flags.where) {
    const law::Condition condition = law::parse_condition(text);
    say("not " + condition.text, law::keep_where(kept, {condition}));
  }
  if (kept.rows.empty() && !flags.where.empty()) {
    throw Error("law", "no row is left by --where", rows.name);
  }
  selection.kept = law::endpoints_from(std::move(kept), columns);
  // Rows that are left out may lack what the others must have.
  try {
    selection.all = law::endpoints_from(std::move(rows), columns);
  } catch (const Error&) {
    selection.all = {};
  }
  if (flags.exclude_controls) {
    say("S = 0", std::erase_if(selection.kept.rows,
                               [](const law::Point& row) { return row.sparsity == 0; }));
    if (selection.kept.rows.empty()) {
      throw Error("law", "no row is left by --exclude-controls", selection.kept.csv.name);
    }
  }
  return selection;
}

}  // namespace smelt::cli
