// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace hvd::rt {

/// The most bytes of a rank's input to a small collective that travel beside its proposal.
inline constexpr std::size_t kMostPayloadBytes = 4096;

/// The bytes of an input that no other rank reads, which need not travel. One word, which is handed
/// over in a register: to write it to memory and read it again would be noticed.
struct OwnPart {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

/// Such an input where it is so small that it travels in the proposal itself.
struct Payload {
    static constexpr std::size_t kMostBytes = 64;
    static constexpr std::size_t kWords = kMostBytes / sizeof(std::uint64_t);

    std::array<std::uint64_t, kWords> words{};

    [[nodiscard]] static constexpr std::size_t words_for(std::size_t bytes) noexcept {
        return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
    }
    [[nodiscard]] const std::byte* data() const noexcept {
        return reinterpret_cast<const std::byte*>(words.data());
    }

    /// `from` is at most kMostBytes long.
    void assign(std::span<const std::byte> from) noexcept {
        if (!from.empty()) {
            std::memcpy(words.data(), from.data(), from.size());
        }
    }
};

}  // namespace hvd::rt
