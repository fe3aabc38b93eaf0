#include "smelt/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <regex>

#include "smelt/core/csv.h"
#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/report/html.h"
#include "tests/report/synthetic_study.h"

namespace smelt::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("smelt-report-" + name + "-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  return folder;
}

/// The page without the compiled-in scripts and style.
std::string written_part(const std::string& html) {
  const auto style = html.find("</style>");
  return html.substr(style, html.find("<script nonce=") - style);
}

std::string page_of(const std::string& name, const Json& json) {
  const auto folder = fresh_folder(name);
  make_folder(folder);
  write_file_atomic(folder / "study.json", to_text(json));
  return written_part(build_report(folder).html);
}

Json minimal() {
  return {{"schema", "smelt.study/1"}, {"name", "bare"}};
}

TEST(Report, SaysWhatTheStudySays) {
  Json json = test::synthetic_json(test::quick_study());
  json["headline"] = "SMELT is 0.0123 nats better (95 % interval 0.0011 to 0.0235).";
  const std::string page = page_of("says", json);
  EXPECT_THAT(page, HasSubstr("SMELT is 0.0123 nats better (95 % interval 0.0011 to 0.0235)."));
  EXPECT_THAT(page,
              HasSubstr("One machine and one corpus: other data may order the arms otherwise."));
  EXPECT_THAT(
      page,
      HasSubstr("Two horizons of one cell cannot tell the six coefficients of the law apart."));
  EXPECT_THAT(page, HasSubstr("fingerprints are equal in 3 of 3 pairs"));
  EXPECT_THAT(page, HasSubstr("✓ equal"));
  EXPECT_THAT(page, HasSubstr("is at the edge of what was tried"));
  EXPECT_THAT(page, HasSubstr("6 (2–4 × 2)"));
  EXPECT_THAT(page, HasSubstr("0123abcd"));
  EXPECT_THAT(page, HasSubstr("13 min 32 s"));
}

TEST(Report, HeadlineOfItsOwnWhenTheStudyHasNone) {
  Json json = minimal();
  json["gap"] =
      Json::parse(R"({"gap": -0.02, "interval": [-0.05, 0.01], "level": 0.95, "per_seed": []})");
  EXPECT_THAT(page_of("own", json),
              HasSubstr("SMELT&#39;s loss is 0.0200 nats per token higher than its Baseline&#39;s "
                        "(95 % interval −0.0500 to +0.0100)."));
}

TEST(Report, DifferentTokensAreSaidAloud) {
  Json json = test::synthetic_json(test::quick_study());
  json["pairs"][1]["fingerprint"]["smelt"] = "other";
  const std::string page = page_of("differ", json);
  EXPECT_THAT(page,
              HasSubstr("NOT always the same tokens: fingerprints are equal in 2 of 3 pairs"));
  EXPECT_THAT(page, HasSubstr("✗ differ"));
}

TEST(Report, EscapesWhateverComesFromData) {
  test::SyntheticStudy study = test::quick_study();
  study.cells = {"<script>alert(1)</script>\"'&"};
  Json json = test::synthetic_json(study);
  json["words"] = {"<img src=x onerror=alert(2)>"};
  json["provenance"]["config"] = "</pre><script>alert(3)</script>";
  const std::string page = page_of("escape", json);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(2)&gt;"));
  // In the specs, too, no element can begin.
  EXPECT_THAT(page, HasSubstr("\\u003cscript>alert(1)"));
}

TEST(Report, MissingSectionsAreLeftOutWithASentence) {
  const std::string page = page_of("bare", minimal());
  for (const char* sentence : {"Left out: the study holds no budgets.",
                               "Left out: no run of this study has a readable metrics.jsonl.",
                               "Left out: no pair has an endpoint on both arms yet.",
                               "Left out: the study has no losses per domain.",
                               "Left out: the study has no losses per document length.",
                               "Left out: the study does not say which rates were tried or taken.",
                               "Left out: no run has reached an endpoint yet.", "No gain is stated",
                               "Left out: the study has no router statistics.",
                               "Left out: the study has no attention probe.",
                               "Left out: the study has no expert overlap between visits.",
                               "The study does not record where its numbers come from."}) {
    EXPECT_THAT(page, HasSubstr(sentence));
  }
  EXPECT_THAT(page, HasSubstr("This study has no loss gap yet."));
  EXPECT_THAT(page, HasSubstr("Study bare"));
}

/// Every member of a study, at any depth, set to null or to the wrong type in turn: no page may
/// fail.
void spoil(const Json& json, const Json::json_pointer& at,
           std::vector<Json::json_pointer>& places) {
  if (at != Json::json_pointer("") && at != Json::json_pointer("/schema")) places.push_back(at);
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) spoil(value, at / key, places);
  } else if (json.is_array() && !json.empty()) {
    spoil(json.front(), at / std::size_t{0}, places);
  }
}

TEST(Report, NoNullAndNoWrongTypeBreaksIt) {
  for (const bool identifiable : {false, true}) {
    test::SyntheticStudy study = test::quick_study();
    study.seeds = 1;
    study.horizons = {600000};
    study.identifiable = identifiable;
    const Json json = test::synthetic_json(study);
    std::vector<Json::json_pointer> places;
    spoil(json, Json::json_pointer(""), places);
    ASSERT_GT(places.size(), 100u);
    const auto folder = fresh_folder("nulls");
    make_folder(folder);
    for (const auto& place : places) {
      for (const Json& value : {Json(), Json("text"), Json::array()}) {
        Json spoiled = json;
        spoiled[place] = value;
        std::ofstream(folder / "study.json") << spoiled.dump();
        EXPECT_NO_THROW(build_report(folder)) << place << " = " << value.dump();
      }
    }
  }
}

TEST(Report, LawsAndGainOnlyWhereIdentified) {
  const std::string quick = page_of("quick", test::synthetic_json(test::quick_study()));
  EXPECT_THAT(quick, HasSubstr("No law is drawn"));
  EXPECT_THAT(quick, Not(HasSubstr("figure-frontier")));
  EXPECT_THAT(quick, Not(HasSubstr("figure-residuals")));
  EXPECT_THAT(quick, Not(HasSubstr("figure-gain\"")));
  EXPECT_THAT(quick, HasSubstr("A CE Gain needs a law of both arms; this grid identifies none."));
  const std::string grid = page_of("grid", test::synthetic_json(test::grid_study()));
  EXPECT_THAT(grid, Not(HasSubstr("No law is drawn")));
  EXPECT_THAT(grid, HasSubstr("figure-frontier"));
  EXPECT_THAT(grid, HasSubstr("figure-residuals"));
  EXPECT_THAT(grid, HasSubstr("figure-draws"));
  EXPECT_THAT(grid, HasSubstr("figure-gain\""));
  EXPECT_THAT(grid, HasSubstr("2,000 draws, 1,983 of them usable"));
}

TEST(Report, AsksNothingOfANetwork) {
  const auto folder = fresh_folder("offline");
  test::write_synthetic_study(folder, test::grid_study());
  const std::string html = build_report(folder).html;
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("unsafe-eval")));
  const std::string page = written_part(html);
  EXPECT_THAT(page, Not(HasSubstr("http")));
  // Every src and href of the whole page: a place in it, or data.
  const std::string head = html.substr(0, html.find("<script nonce="));
  const std::regex link("(?:src|href)=\"([^\"]{0,40})");
  std::size_t links = 0;
  for (auto at = std::sregex_iterator(head.begin(), head.end(), link); at != std::sregex_iterator();
       ++at) {
    const std::string target = (*at)[1];
    EXPECT_TRUE(target.starts_with("#") || target.starts_with("data:")) << target;
    ++links;
  }
  EXPECT_GT(links, 20u);
  EXPECT_THAT(head, Not(HasSubstr("url(")));
  EXPECT_THAT(head, Not(HasSubstr("@import")));
  EXPECT_LT(html.size(), 3u << 20);
}

TEST(Report, CsvFilesHoldTheNumbersOfTheStudy) {
  const auto folder = fresh_folder("csv");
  test::write_synthetic_study(folder, test::grid_study());
  const auto page = write_report(folder);
  EXPECT_EQ(page, folder / "report.html");
  const Json json = read_json(folder / "study.json");
  const Csv gaps = read_csv(folder / "tables" / "gaps.csv");
  ASSERT_EQ(gaps.rows.size(), json["gaps"].size());
  for (std::size_t i = 0; i < gaps.rows.size(); ++i) {
    EXPECT_EQ(gaps.number(i, gaps.column("gap")), json["gaps"][i]["gap"].get<double>());
    EXPECT_EQ(gaps.number(i, gaps.column("high")), json["gaps"][i]["interval"][1].get<double>());
  }
  const Csv curves = read_csv(folder / "tables" / "curves.csv");
  EXPECT_EQ(curves.rows.size(), 36u * 400u);
  const std::string html = read_file(page);
  for (const auto& table : build_report(folder).tables) {
    const std::string file = read_file(folder / "tables" / (table.name + ".csv"));
    EXPECT_THAT(html, HasSubstr("href=\"" + csv_link(file) + "\"")) << table.name;
  }
}

TEST(Report, RunNamesStayInsideTheStudy) {
  Json json = test::synthetic_json(test::quick_study());
  const auto folder = fresh_folder("paths");
  make_folder(folder / "study");
  make_folder(folder / "outside");
  write_file_atomic(folder / "outside" / "metrics.jsonl",
                    "{\"step\":1,\"tokens\":7654321,\"loss\":3}\n");
  json["pairs"][0]["runs"]["smelt"] = "../../outside";
  write_file_atomic(folder / "study" / "study.json", to_text(json));
  EXPECT_THAT(build_report(folder / "study").html, Not(HasSubstr("7654321")));
}

TEST(Html, EscapesAndFormats) {
  EXPECT_EQ(escape("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
  EXPECT_EQ(csv_link("a b,\"c\"\n#é"), "data:text/csv;charset=utf-8,a%20b,%22c%22%0A%23%C3%A9");
  EXPECT_EQ(with_sign(-0.01234, 4), "−0.0123");
  EXPECT_EQ(with_sign(-0.00001, 3), "0.000");
  EXPECT_EQ(percent(0.00123), "+0.12 %");
  EXPECT_EQ(compact(1.33e9), "1.33 × 10⁹");
  EXPECT_EQ(compact(0.003), "0.003");
  EXPECT_EQ(fixed(std::nullopt, 2), "–");
  EXPECT_EQ(join_words({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(count_of(1, "seed") + " " + count_of(2, "seed"), "1 seed 2 seeds");
}

}  // namespace
}  // namespace smelt::report
