// SPDX-License-Identifier: Apache-2.0
//
// Little-endian encoding of values, shared by every wire format of the project. A reader never
// reads past its end: the first short read makes it fail for good, and `finish` reports it.
#pragma once

#include "collectives/base/result.hpp"

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hvd {

static_assert(std::endian::native == std::endian::little, "wire formats are little-endian");

template <class T>
concept WireNumber = std::integral<T> || std::floating_point<T> || std::is_enum_v<T>;

class ByteWriter {
public:
    template <WireNumber T>
    void number(T value) {
        const auto* raw = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), raw, raw + sizeof value);
    }

    /// Length (u32) and bytes.
    void text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        raw({reinterpret_cast<const std::byte*>(value.data()), value.size()});
    }

    void raw(std::span<const std::byte> value) {
        bytes_.insert(bytes_.end(), value.begin(), value.end());
    }

    /// Length (u32), then `write(element)` for each.
    template <class Range, class Write>
    void list(const Range& range, Write write) {
        number(static_cast<std::uint32_t>(range.size()));
        for (const auto& element : range) {
            write(element);
        }
    }

    [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

class ByteReader {
public:
    /// The bytes must outlive the reader and what `raw` returned.
    explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

    template <WireNumber T>
    [[nodiscard]] T number() noexcept {
        T value{};
        const auto from = raw(sizeof value);
        if (from.size() == sizeof value) {
            std::memcpy(&value, from.data(), sizeof value);
        }
        return value;
    }

    /// A bool that refuses every byte but 0 and 1.
    [[nodiscard]] bool boolean() noexcept {
        const auto value = number<std::uint8_t>();
        failed_ = failed_ || value > 1;
        return value == 1;
    }

    [[nodiscard]] std::string text() {
        const auto from = raw(number<std::uint32_t>());
        return {reinterpret_cast<const char*>(from.data()), from.size()};
    }

    [[nodiscard]] std::span<const std::byte> raw(std::size_t size) noexcept {
        if (failed_ || size > rest_.size()) {
            failed_ = true;
            return {};
        }
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    /// Reads what ByteWriter::list wrote. `read()` must consume at least one byte per element, so
    /// that a forged length cannot make us allocate more than was sent.
    template <class Read>
    void each(Read read) {
        const auto count = number<std::uint32_t>();
        failed_ = failed_ || count > rest_.size();
        for (std::uint32_t index = 0; index < count && !failed_; ++index) {
            read();
        }
    }

    /// The same, with what `read()` gives.
    template <class T, class Read>
    [[nodiscard]] std::vector<T> list(Read read) {
        std::vector<T> values;
        each([&] { values.push_back(read()); });
        return values;
    }

    [[nodiscard]] std::span<const std::byte> rest() const noexcept { return rest_; }
    [[nodiscard]] bool failed() const noexcept { return failed_; }

    /// Every byte was read and none was missing. `what` names the message in the error.
    [[nodiscard]] Status finish(std::string_view what) const {
        if (failed_ || !rest_.empty()) {
            return Error{Errc::internal,
                         std::string(what) + (failed_ ? ": truncated or malformed message"
                                                      : ": unexpected bytes after the message")};
        }
        return ok();
    }

private:
    std::span<const std::byte> rest_;
    bool failed_ = false;
};

}  // namespace hvd
