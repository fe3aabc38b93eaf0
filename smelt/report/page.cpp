#include "smelt/report/page.h"

#include <fmt/format.h>

#include "smelt/core/hash.h"
#include "smelt/report/assets.h"
#include "smelt/report/html.h"

namespace smelt::report {
namespace {

std::string key_symbol(const KeyEntry& entry) {
  const std::string colour = "var(--" + entry.colour + ")";
  std::string shape;
  switch (entry.mark) {
    case Mark::kDot:
      shape = fmt::format("<circle cx=\"9\" cy=\"7\" r=\"4\" fill=\"{}\"/>", colour);
      break;
    case Mark::kRing:
      shape = fmt::format(
          "<circle cx=\"9\" cy=\"7\" r=\"4\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
          colour);
      break;
    case Mark::kSmallDot:
      shape =
          fmt::format("<circle cx=\"9\" cy=\"7\" r=\"2\" fill=\"{}\" opacity=\"0.6\"/>", colour);
      break;
    case Mark::kSmallRing:
      shape = fmt::format(
          "<circle cx=\"9\" cy=\"7\" r=\"2.7\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.4\"/>",
          colour);
      break;
    case Mark::kDiamond:
      shape = fmt::format("<path d=\"M9 1.5 14.5 7 9 12.5 3.5 7z\" fill=\"{}\"/>", colour);
      break;
    case Mark::kBand:
      shape = fmt::format(
          "<rect x=\"0\" y=\"2\" width=\"18\" height=\"10\" fill=\"{}\" opacity=\"0.25\"/>",
          colour);
      break;
    case Mark::kLine:
    case Mark::kDashed:
    case Mark::kFaint:
      shape = fmt::format("<path d=\"M0 7h18\" stroke=\"{}\" stroke-width=\"2\"{}{}/>", colour,
                          entry.mark == Mark::kDashed ? " stroke-dasharray=\"4 3\"" : "",
                          entry.mark == Mark::kFaint ? " opacity=\"0.35\"" : "");
      break;
  }
  return "<svg width=\"18\" height=\"14\" aria-hidden=\"true\">" + shape + "</svg>";
}

std::string key_html(const std::vector<KeyEntry>& key) {
  if (key.empty()) return "";
  std::string html = "<ul class=\"key\">";
  for (const KeyEntry& entry : key)
    html += "<li>" + key_symbol(entry) + escape(entry.label) + "</li>";
  return html + "</ul>\n";
}

}  // namespace

void Page::section(std::string_view id, std::string_view title) {
  sections_.emplace_back(id, title);
  body_ += fmt::format("<h2 id=\"{}\">{}</h2>\n", escape(id), escape(title));
}

void Page::heading(std::string_view title) {
  body_ += "<h3>" + escape(title) + "</h3>\n";
}

void Page::paragraph(std::string_view words) {
  body_ += "<p>" + escape(words) + "</p>\n";
}

void Page::warning(std::string_view words) {
  body_ += "<p class=\"warn\">" + escape(words) + "</p>\n";
}

void Page::absent(std::string_view words) {
  body_ += "<p class=\"absent\">" + escape(words) + "</p>\n";
}

std::string Page::behind(const DataTable& table) {
  tables_.push_back(table);
  return fmt::format(
      "<details class=\"behind\"><summary>Table: {} ({})</summary>\n{}</details>\n{}\n",
      escape(table.title), count_of(table.rows.size(), "row"), to_html(table),
      download_link(table));
}

void Page::figure(Figure figure) {
  body_ += fmt::format("<figure id=\"figure-{}\">\n{}", escape(figure.name), key_html(figure.key));
  const std::size_t across = figure.layout == Layout::kOne ? 1 : figure.panels.size();
  const char* layout = across == 1 ? " one" : across == 2 ? " two" : "";
  if (!figure.panels.empty()) {
    body_ += fmt::format("<div class=\"panels{}\" role=\"group\" aria-label=\"{}\">\n", layout,
                         escape(figure.summary));
  }
  for (Panel& panel : figure.panels) {
    const std::string name = figure.name + (panel.title.empty() ? "" : "-" + panel.title);
    panel.spec["description"] = figure.summary + (panel.title.empty() ? "" : ", " + panel.title);
    body_ += fmt::format(
        "<div class=\"panel\">{}<div class=\"chart\" data-spec=\"{}\" "
        "data-name=\"{}\"></div></div>\n",
        panel.title.empty() ? "" : "<h4>" + escape(panel.title) + "</h4>", specs_.size(),
        escape(name));
    specs_.push_back(std::move(panel.spec));
  }
  if (!figure.panels.empty()) body_ += "</div>\n";
  body_ += fmt::format("<figcaption><b>Figure {}.</b> {}</figcaption>\n", ++figures_,
                       escape(figure.caption));
  for (const DataTable& table : figure.tables) body_ += behind(table);
  body_ += "</figure>\n";
}

void Page::table(DataTable table, bool open) {
  if (!open) {
    body_ += behind(table);
    return;
  }
  body_ += to_html(table) + "<p>" + download_link(table) + "</p>\n";
  tables_.push_back(std::move(table));
}

void Page::keep(DataTable table) {
  body_ += "<p>" + download_link(table) + "</p>\n";
  tables_.push_back(std::move(table));
}

std::string Page::html(const std::string& title, const std::string& header) const {
  std::string nav = "<nav aria-label=\"Sections\"><ol>";
  for (const auto& [id, name] : sections_) {
    nav += fmt::format("<li><a href=\"#{}\">{}</a></li>", escape(id), escape(name));
  }
  nav += "</ol></nav>\n";

  const std::string specs = script_safe(specs_.dump());
  // Only scripts that carry the page's own hash run: text that slipped into the page cannot know
  // it.
  const std::string nonce = hash_text(body_ + header + specs);
  const std::string policy = fmt::format(
      "default-src 'none'; script-src 'nonce-{}'; style-src 'unsafe-inline'; img-src data: blob:; "
      "base-uri 'none'; form-action 'none'",
      nonce);

  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  html += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", policy);
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html += "<meta name=\"color-scheme\" content=\"light dark\">\n";
  html += "<link rel=\"icon\" href=\"data:,\">\n";
  html += "<title>" + escape(title) + "</title>\n<style>\n";
  html += page_style();
  html += "</style>\n</head>\n<body>\n<header>\n" + header + nav + "</header>\n<main>\n";
  html +=
      "<noscript><p class=\"absent\">The plots need JavaScript; every number of theirs is in the "
      "table below each.</p></noscript>\n";
  html += body_;
  html +=
      "</main>\n<footer><p>Losses are nats per token. A gap is Baseline minus SMELT: above zero, "
      "SMELT is better. This page holds all it shows and asks nothing of any "
      "network.</p></footer>\n";
  html += fmt::format("<script type=\"application/json\" id=\"specs\">{}</script>\n", specs);
  for (const std::string_view script : {vega_bundle(), page_script()}) {
    html += fmt::format("<script nonce=\"{}\">", nonce);
    html += script;
    html += "</script>\n";
  }
  return html + "</body>\n</html>\n";
}

}  // namespace smelt::report
