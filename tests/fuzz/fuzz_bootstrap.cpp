// SPDX-License-Identifier: Apache-2.0
//
// The output of a host before its agent speaks: however it is cut, it is read in the same way.
#include "collectives/base/assert.hpp"
#include "collectives/base/text.hpp"
#include "launcher/remote/bootstrap/filter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace {

using hvd::one_line;
using hvd::launch::BootstrapFilter;

constexpr std::size_t kMaxLine = 200;

struct Transcript {
    std::string kinds;   // one character for each event
    std::string stream;  // the agent's bytes

    friend bool operator==(const Transcript&, const Transcript&) = default;
};

/// Feeds the bytes in two parts.
Transcript read(std::span<const std::byte> bytes, std::size_t cut) {
    using Kind = BootstrapFilter::Kind;
    BootstrapFilter filter;
    Transcript seen;
    for (const auto part : {bytes.first(cut), bytes.subspan(cut)}) {
        if (!seen.kinds.empty() && seen.kinds.back() == 's') {
            seen.stream.append(reinterpret_cast<const char*>(part.data()), part.size());
            continue;
        }
        filter.feed(part);
        for (auto event = filter.next(); event.kind != Kind::nothing; event = filter.next()) {
            seen.kinds += event.kind == Kind::started  ? 's'
                          : event.kind == Kind::failed ? 'f'
                                                       : 'a';
            if (event.kind == Kind::started) {
                seen.stream = event.text;
                break;
            }
            if (event.kind == Kind::failed) {
                return seen;
            }
        }
    }
    const std::string banner = filter.banner();
    HVD_ASSERT(std::ranges::none_of(banner, [](char character) { return character == '\n'; }),
               "a banner is one line");
    return seen;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
    const std::size_t cut = bytes.empty() ? 0 : data[0] % bytes.size();
    HVD_ASSERT(read(bytes, cut) == read(bytes, bytes.size()), "cutting it changes nothing");
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    HVD_ASSERT(one_line(text, kMaxLine).size() <= 4 * kMaxLine + 16, "a long line is cut");
    return 0;
}
