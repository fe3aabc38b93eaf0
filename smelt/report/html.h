// HTML out of data: everything that is not written in this folder's sources passes through
// `escape`.
//
//   html += "<p>" + escape(cell_name) + "</p>";
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::report {

/// Text for element content and quoted attributes: & < > " ' replaced.
std::string escape(std::string_view text);

/// "data:text/csv,…" with everything percent-encoded that a URL or an attribute could trip over.
std::string csv_link(std::string_view csv);

/// JSON text safe inside a <script> element.
std::string script_safe(const std::string& json);

/// Numbers as people read them (a true minus sign); "–" for nothing.
std::string fixed(std::optional<double> value, int digits);
std::string with_sign(std::optional<double> value, int digits);
/// A fraction as "+0.12 %".
std::string percent(std::optional<double> fraction, int digits = 2);
/// Four significant digits: 0.0031, 1.33e9 as "1.33 × 10⁹".
std::string compact(std::optional<double> value);
/// "1,234,567".
std::string whole(std::optional<double> value);
/// "1.23M tokens" without the unit.
std::string si(std::optional<double> value);

/// "3 seeds", "1 seed".
std::string count_of(std::size_t n, std::string_view noun);
/// "a, b and c".
std::string join_words(const std::vector<std::string>& words);

}  // namespace smelt::report
