// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/output_stream.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Where a rank runs.
struct RankPlace {
    std::string host;
    int local_rank = 0;
};

/// The text in front of each line of a rank, as a template; see --prefix.
class LinePrefix final {
public:
    /// "[3]<stdout>:", as the original has it.
    LinePrefix();

    /// The same after the time: "2026-01-31T09:15:00.123456Z[3]<stdout>:".
    [[nodiscard]] static LinePrefix stamped();

    /// Text with {rank}, {host}, {local_rank}, {stream} and {time} in it, and {{ for a brace;
    /// "none" for nothing at all. Errors: invalid_argument, without the text.
    [[nodiscard]] static Result<LinePrefix> parse(std::string_view text);

    /// For one rank: the pieces between which the time stands.
    [[nodiscard]] std::vector<std::string> fill(int rank,
                                                const RankPlace& place,
                                                OutputStream stream) const;

    friend bool operator==(const LinePrefix&, const LinePrefix&) = default;

private:
    enum class Field : std::uint8_t { text, rank, host, local_rank, stream, time };

    struct Part {
        Field field = Field::text;
        std::string text;  // of Field::text

        friend bool operator==(const Part&, const Part&) = default;
    };

    struct Name;

    std::vector<Part> parts_;
};

}  // namespace hvd::launch
