// SPDX-License-Identifier: Apache-2.0
//
// What the early shim reads and writes. Pure, and without a function of the C library: none may be
// called yet, so std::string_view is here two numbers and nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hvd::launch::early {

constexpr std::size_t length(const char* text) noexcept {
    std::size_t size = 0;
    while (text[size] != '\0') {
        ++size;
    }
    return size;
}

constexpr bool starts_with(const char* text, std::string_view start) noexcept {
    for (std::size_t index = 0; index < start.size(); ++index) {
        if (text[index] != start[index]) {
            return false;  // also where `text` ends
        }
    }
    return true;
}

/// Of a variable: what stands before its `=`.
constexpr std::size_t length_of_name(const char* variable) noexcept {
    std::size_t size = 0;
    while (variable[size] != '\0' && variable[size] != '=') {
        ++size;
    }
    return size;
}

template <class Starts>
constexpr bool starts_with_any(const char* text, const Starts& starts) noexcept {
    for (const std::string_view start : starts) {
        if (starts_with(text, start)) {
            return true;
        }
    }
    return false;
}

constexpr bool equals(const char* text, std::string_view other) noexcept {
    return starts_with(text, other) && text[other.size()] == '\0';
}

/// The value of a variable, or null.
constexpr const char* value_of(const char* const* variables, std::string_view name) noexcept {
    for (; *variables != nullptr; ++variables) {
        if (starts_with(*variables, name) && (*variables)[name.size()] == '=') {
            return *variables + name.size() + 1;
        }
    }
    return nullptr;
}

/// Of digits alone.
constexpr std::optional<int> number_of(const char* text, std::size_t size) noexcept {
    constexpr std::size_t kMaxDigits = 9;
    if (size == 0 || size > kMaxDigits) {
        return std::nullopt;
    }
    int number = 0;
    for (std::size_t index = 0; index < size; ++index) {
        if (text[index] < '0' || text[index] > '9') {
            return std::nullopt;
        }
        number = number * 10 + (text[index] - '0');
    }
    return number;
}

/// Where HOROVOD_MPI_JOB (collectives/launch_contract/mpi_job) plans a rank.
struct Place {
    const char* job_id = nullptr;
    std::size_t job_id_size = 0;
    std::size_t host = 0;
    int size = 0;  // of the job
};

/// Nothing where the text is wrong or the rank is not in it.
constexpr std::optional<Place> find_place(const char* text, int rank) noexcept {
    Place place{.job_id = text};
    while (text[place.job_id_size] != '\0' && text[place.job_id_size] != ';') {
        ++place.job_id_size;
    }
    const char* part = text + place.job_id_size;
    bool is_found = false;
    for (std::size_t host = 0; *part == ';'; ++host) {
        const char* const name = ++part;
        const char* count = nullptr;
        for (; *part != '\0' && *part != ';'; ++part) {
            count = *part == ':' ? part + 1 : count;  // an IPv6 address has more of them
        }
        if (count == nullptr || count == name + 1) {
            return std::nullopt;
        }
        const auto ranks = number_of(count, static_cast<std::size_t>(part - count));
        if (!ranks) {
            return std::nullopt;
        }
        if (!is_found && rank < place.size + *ranks) {
            place.host = host;
            is_found = true;
        }
        place.size += *ranks;
    }
    return is_found && place.job_id_size > 0 ? std::optional(place) : std::nullopt;
}

/// Finds a number among others that come in pieces, as in /proc/PID/task/PID/children.
class NumberSearch {
public:
    constexpr explicit NumberSearch(int wanted) noexcept : wanted_(wanted) {}

    constexpr void feed(const char* text, std::size_t size) noexcept {
        for (std::size_t index = 0; index < size; ++index) {
            // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): see .clang-tidy
            if (text[index] >= '0' && text[index] <= '9') {
                number_ = number_ * 10 + (text[index] - '0');
            } else {
                finish();
            }
        }
    }

    constexpr bool finish() noexcept {
        is_found_ = is_found_ || number_ == wanted_;
        number_ = 0;
        return is_found_;
    }

private:
    long wanted_ = 0;
    long number_ = 0;
    bool is_found_ = false;
};

/// Text or a frame in a buffer; what does not fit is cut off, and `is_whole` tells.
/// The buffer is not set to zero, which would call memset.
template <std::size_t kSize>
class Line {  // NOLINT(cppcoreguidelines-pro-type-member-init)
public:
    constexpr Line& add(const char* text, std::size_t size) noexcept {
        for (std::size_t index = 0; index < size && fits(); ++index) {
            bytes_[size_++] = text[index];
        }
        return *this;
    }

    constexpr Line& add(std::string_view text) noexcept { return add(text.data(), text.size()); }

    constexpr Line& add_decimal(std::size_t number) noexcept {
        std::size_t power = 1;
        while (number / power >= 10) {
            power *= 10;
        }
        for (; power > 0 && fits(); power /= 10) {
            bytes_[size_++] = static_cast<char>('0' + number / power % 10);
        }
        return *this;
    }

    /// As ByteWriter::number does.
    constexpr Line& add_u32(std::uint32_t number) noexcept {
        for (int shift = 0; shift < 32 && fits(); shift += 8) {
            bytes_[size_++] = static_cast<char>(number >> shift & 0xFFU);
        }
        return *this;
    }

    /// As ByteWriter::text does.
    constexpr Line& add_text(const char* text, std::size_t size) noexcept {
        return add_u32(static_cast<std::uint32_t>(size)).add(text, size);
    }

    constexpr void clear() noexcept {
        size_ = 0;
        is_whole_ = true;
    }

    /// Ends with a zero.
    [[nodiscard]] constexpr const char* text() noexcept {
        bytes_[size_] = '\0';
        return bytes_;
    }

    [[nodiscard]] constexpr const char* data() const noexcept { return bytes_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] constexpr bool is_whole() const noexcept { return is_whole_; }

private:
    constexpr bool fits() noexcept {
        is_whole_ = is_whole_ && size_ < kSize;
        return size_ < kSize;
    }

    char bytes_[kSize + 1];  // NOLINT(modernize-avoid-c-arrays)
    std::size_t size_ = 0;
    bool is_whole_ = true;
};

/// The body of a frame, as ByteReader does.
class Reader {
public:
    constexpr Reader(char* bytes, std::size_t size) noexcept : at_(bytes), left_(size) {}

    constexpr std::uint32_t u32() noexcept {
        std::uint32_t number = 0;
        const char* const bytes = raw(sizeof number);
        for (unsigned index = 0; bytes != nullptr && index < sizeof number; ++index) {
            number |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[index]))
                      << 8 * index;
        }
        return number;
    }

    /// Its first byte, or null. `size` is set.
    constexpr char* text(std::size_t& size) noexcept {
        size = u32();
        return raw(size);
    }

    [[nodiscard]] constexpr bool has_failed() const noexcept { return has_failed_; }

private:
    constexpr char* raw(std::size_t size) noexcept {
        if (has_failed_ || size > left_) {
            has_failed_ = true;
            return nullptr;
        }
        char* const bytes = at_;
        at_ += size;
        left_ -= size;
        return bytes;
    }

    char* at_ = nullptr;
    std::size_t left_ = 0;
    bool has_failed_ = false;
};

}  // namespace hvd::launch::early
