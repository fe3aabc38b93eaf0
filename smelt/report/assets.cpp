#include "smelt/report/assets.h"

#include "asset_paths.h"

// .incbin takes a file as it is: a megabyte compiles in no time.
#define SMELT_ASSET(name, file)                 \
  __asm__(                                      \
      ".pushsection .rodata\n"                  \
      ".global smelt_report_" #name             \
      "\n"                                      \
      "smelt_report_" #name ": .incbin \"" file \
      "\"\n"                                    \
      ".global smelt_report_" #name             \
      "_end\n"                                  \
      "smelt_report_" #name                     \
      "_end: .byte 0\n"                         \
      ".popsection\n");                         \
  extern "C" const char smelt_report_##name[];  \
  extern "C" const char smelt_report_##name##_end[];

SMELT_ASSET(vega, SMELT_ASSET_VEGA)
SMELT_ASSET(script, SMELT_ASSET_SCRIPT)
SMELT_ASSET(style, SMELT_ASSET_STYLE)

namespace smelt::report {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, end};
}

}  // namespace

std::string_view vega_bundle() {
  return between(smelt_report_vega, smelt_report_vega_end);
}
std::string_view page_script() {
  return between(smelt_report_script, smelt_report_script_end);
}
std::string_view page_style() {
  return between(smelt_report_style, smelt_report_style_end);
}

}  // namespace smelt::report
