// SPDX-License-Identifier: Apache-2.0
//
// A JobResult in words.
#pragma once

#include "launcher/model/job_result.hpp"
#include "launcher/plan/print.hpp"

#include <string>
#include <string_view>

namespace hvd::launch {

[[nodiscard]] std::string_view to_string(Reason reason) noexcept;
[[nodiscard]] std::string_view to_string(RankClass value) noexcept;

/// The final report as text, each line with "horovodrun: " in front; empty after a success.
[[nodiscard]] std::string format_last_words(const JobResult& result, Values values = Values::shown);

/// The content of --summary, one JSON object (launcher/README.md).
[[nodiscard]] std::string format_summary(const JobResult& result);

}  // namespace hvd::launch
