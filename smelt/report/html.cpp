#include "smelt/report/html.h"

#include <fmt/format.h>

#include <cmath>

#include "smelt/core/table.h"

namespace smelt::report {
namespace {

constexpr const char* kNothing = "–";

std::string true_minus(std::string text) {
  if (text.starts_with('-')) text.replace(0, 1, "−");
  return text;
}

/// "-0.000" reads as a sign that is not there.
double without_negative_zero(double value, int digits) {
  return std::abs(value) < 0.5 * std::pow(10.0, -digits) ? 0.0 : value;
}

std::string superscript(int number) {
  static constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char c : std::to_string(number)) text += c == '-' ? "⁻" : kDigits[c - '0'];
  return text;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string csv_link(std::string_view csv) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:+/";
  std::string out = "data:text/csv;charset=utf-8,";
  out.reserve(out.size() + csv.size() * 5 / 4);
  for (const char c : csv) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

std::string script_safe(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string fixed(std::optional<double> value, int digits) {
  if (!value) return kNothing;
  return true_minus(fmt::format("{:.{}f}", without_negative_zero(*value, digits), digits));
}

std::string with_sign(std::optional<double> value, int digits) {
  if (!value) return kNothing;
  const double shown = without_negative_zero(*value, digits);
  if (shown == 0) return fmt::format("{:.{}f}", 0.0, digits);
  return true_minus(fmt::format("{:+.{}f}", shown, digits));
}

std::string percent(std::optional<double> fraction, int digits) {
  if (!fraction) return kNothing;
  return with_sign(100 * *fraction, digits) + " %";
}

std::string compact(std::optional<double> value) {
  if (!value) return kNothing;
  const double size = std::abs(*value);
  if (size != 0 && (size >= 1e6 || size < 1e-4)) {
    const int power = static_cast<int>(std::floor(std::log10(size)));
    return true_minus(fmt::format("{:.3g}", *value / std::pow(10.0, power))) + " × 10" +
           superscript(power);
  }
  return true_minus(fmt::format("{:.4g}", *value));
}

std::string whole(std::optional<double> value) {
  return value ? true_minus(with_commas(*value)) : kNothing;
}

std::string si(std::optional<double> value) {
  return value ? true_minus(with_si(*value)) : kNothing;
}

std::string count_of(std::size_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace smelt::report
