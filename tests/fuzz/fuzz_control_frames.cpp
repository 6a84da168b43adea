// SPDX-License-Identifier: Apache-2.0
//
// Frames of the control links, cut into pieces as they may arrive.
#include "runtime/control/control_frames.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    hvd::rt::FrameReader reader;
    auto rest = std::as_bytes(std::span(data, size)).subspan(1);
    const std::size_t piece = 1 + data[0];
    while (!rest.empty()) {
        const auto taken = std::min(piece, rest.size());
        reader.feed(rest.first(taken));
        rest = rest.subspan(taken);
        while (true) {
            const auto message = reader.next();
            if (!message) {
                return 0;
            }
            if (!*message) {
                break;
            }
            // A message that was read can be written, and then is the same.
            hvd::rt::FrameReader again;
            again.feed(hvd::rt::encode(**message));
            const auto copy = again.next();
            if (!copy || !*copy || !(**copy == **message)) {
                std::abort();
            }
        }
    }
    return 0;
}
