// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/output_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// A piece of output on its way from the io thread to the writer threads.
struct Chunk {
    enum class Kind : std::uint8_t {
        data,    // bytes that a rank wrote
        ended,   // a rank has ended: its last line is over, even without a line end
        notice,  // a sentence of horovodrun itself, printed as it is
    };

    Kind kind = Kind::data;
    OutputStream stream = OutputStream::out;
    int rank = 0;
    std::int64_t time_ns = 0;  // since 1970 (UTC), when the agent read it
    std::vector<std::byte> bytes;

    [[nodiscard]] std::string_view text() const noexcept {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
};

}  // namespace hvd::launch
