// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/frames.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

using namespace hvd::launch::wire;

/// A message that was read means the same when it is written again.
template <class Message>
void read(std::span<const std::byte> stream) {
    FrameReader<Message> reader;
    reader.feed(std::as_bytes(std::span(kMagic)));
    reader.feed(stream);
    while (true) {
        const auto message = reader.next();
        if (!message || !*message) {
            return;
        }
        FrameReader<Message> again;
        again.feed(std::as_bytes(std::span(kMagic)));
        again.feed(encode(**message));
        const auto copy = again.next();
        if (!copy || !*copy || **copy != **message) {
            std::abort();
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto stream = std::as_bytes(std::span(data, size));
    read<FromAgent>(stream);
    read<ToAgent>(stream);
    FrameReader<FromAgent> without_magic;
    without_magic.feed(stream);
    (void)without_magic.next();
    return 0;
}
