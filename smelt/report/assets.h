// The files compiled into the library: what a page needs besides its numbers.
#pragma once

#include <string_view>

namespace smelt::report {

/// Vega, Vega-Lite and Vega-Embed as one script.
std::string_view vega_bundle();
/// page.js and page.css of this folder.
std::string_view page_script();
std::string_view page_style();

}  // namespace smelt::report
