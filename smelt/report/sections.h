// The sections of a report, in the order in which they stand on the page.  Each writes itself from
// what the study holds, or says in one sentence why it is left out.
#pragma once

#include <string>

#include "smelt/report/page.h"
#include "smelt/report/study_data.h"

namespace smelt::report {

// answer.cpp
std::string headline_of(const Study& study);
std::string header_html(const Study& study);    // headline, interval, key facts
void add_says(const Study& study, Page& page);  // what this says, what it does not say

// costs.cpp
void add_budgets(const Study& study, Page& page);

// curves.cpp
void add_curves(const Study& study, Page& page);
void add_rates(const Study& study, Page& page);

// gaps.cpp
void add_gaps(const Study& study, Page& page);
void add_domains(const Study& study, Page& page);
void add_lengths(const Study& study, Page& page);

// laws.cpp
void add_endpoints(const Study& study, Page& page);  // with both laws where they are identified

// gain.cpp
void add_gain(const Study& study, Page& page);

// inside.cpp
void add_router(const Study& study, Page& page);
void add_sink(const Study& study, Page& page);
void add_overlap(const Study& study, Page& page);

// provenance.cpp
void add_provenance(const Study& study, Page& page);

}  // namespace smelt::report
