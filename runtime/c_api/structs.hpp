// SPDX-License-Identifier: Apache-2.0
//
// Structs of the C ABI as their callers know them. A caller's struct has the size that its header
// gave it: an older caller knows the first fields only, a newer one more than this library. `read`
// and `write` are the only code that touches a caller's struct.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/include/hvd/hvd.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace hvd::rt::abi {

/// Larger structs are garbage: no header will ever have them.
inline constexpr std::size_t kLargestStruct = 4096;

/// The versions of a struct: its size in the first header that had it, and where each field that
/// was added later ends. A caller has such a field only if all of it lies within struct_size.
template <class Struct>
struct Layout;

template <>
struct Layout<hvd_process_set> {
    static constexpr std::string_view kName = "hvd_process_set";
    static constexpr std::size_t kFirst = 24;
    static constexpr std::array<std::size_t, 0> kLater{};
};

template <>
struct Layout<hvd_init_options> {
    static constexpr std::string_view kName = "hvd_init_options";
    static constexpr std::size_t kFirst = 16;  // ended with the time limit
    static constexpr std::array<std::size_t, 4> kLater{24, 32, 40, sizeof(hvd_init_options)};
};

template <>
struct Layout<hvd_topology> {
    static constexpr std::string_view kName = "hvd_topology";
    static constexpr std::size_t kFirst = 40;
    static constexpr std::array<std::size_t, 0> kLater{};
};

template <>
struct Layout<hvd_tensor> {
    static constexpr std::string_view kName = "hvd_tensor";
    static constexpr std::size_t kFirst = 56;
    static constexpr std::array<std::size_t, 1> kLater{sizeof(hvd_tensor)};
};

template <>
struct Layout<hvd_request> {
    static constexpr std::string_view kName = "hvd_request";
    static constexpr std::size_t kFirst = 72;
    static constexpr std::array<std::size_t, 3> kLater{80, 88, sizeof(hvd_request)};
};

template <>
struct Layout<hvd_metrics> {
    static constexpr std::string_view kName = "hvd_metrics";
    static constexpr std::size_t kFirst = 88;
    static constexpr std::array<std::size_t, 0> kLater{};
};

template <>
struct Layout<hvd_arrivals> {
    static constexpr std::string_view kName = "hvd_arrivals";
    static constexpr std::size_t kFirst = 40;
    static constexpr std::array<std::size_t, 0> kLater{};
};

template <>
struct Layout<hvd_counters> {
    static constexpr std::string_view kName = "hvd_counters";
    static constexpr std::size_t kFirst = 80;
    static constexpr std::array<std::size_t, 0> kLater{};
};

/// Bytes of the fields that lie wholly within `size`, which is at least kFirst.
template <class Struct>
[[nodiscard]] constexpr std::size_t known_bytes(std::size_t size) noexcept {
    std::size_t known = Layout<Struct>::kFirst;
    for (const auto end : Layout<Struct>::kLater) {
        known = end <= size ? end : known;
    }
    return known;
}

/// Why a struct of `size` bytes cannot be read and written here.
/// Errors: invalid_argument, or unsupported for a newer caller that sets what is unknown here.
[[nodiscard]] Status check_unusual(std::string_view name,
                                   std::size_t first,
                                   std::size_t known,
                                   const void* theirs,
                                   std::size_t size);

template <class Struct>
[[nodiscard]] inline Status check_struct(const Struct* theirs, std::size_t size) {
    using Is = Layout<Struct>;
    static_assert(known_bytes<Struct>(sizeof(Struct)) == sizeof(Struct), "a field is not listed");
    if (size >= Is::kFirst && size <= sizeof(Struct)) {
        return ok();
    }
    return check_unusual(Is::kName, Is::kFirst, sizeof(Struct), theirs, size);
}

/// A copy in which fields that the caller does not have are 0. `size` is the caller's struct_size,
/// or that of the array's first element.
template <class Struct>
[[nodiscard]] Result<Struct> read(const Struct* theirs, std::size_t size) {
    HVD_TRY_STATUS(check_struct(theirs, size));
    Struct ours{};
    std::memcpy(&ours, theirs, known_bytes<Struct>(size));
    ours.struct_size = size;
    return ours;
}

/// The same without a copy where the caller knows all fields: else it is in `copy`.
template <class Struct>
[[nodiscard]] Result<const Struct*> view(const Struct* theirs, std::size_t size, Struct& copy) {
    if (size == sizeof(Struct)) {
        return theirs;
    }
    HVD_TRY(copy, read(theirs, size));
    return &copy;
}

template <class Struct>
[[nodiscard]] Result<Struct> read(const Struct* theirs) {
    return read(theirs, theirs->struct_size);
}

/// Fills the fields that the caller has, and nothing else: struct_size stays too.
/// Errors: see check_struct; then nothing is written.
template <class Struct>
[[nodiscard]] Status write(const Struct& ours, Struct* theirs) {
    HVD_TRY_STATUS(check_struct(theirs, theirs->struct_size));
    constexpr auto kBegin = sizeof theirs->struct_size;
    std::memcpy(reinterpret_cast<std::byte*>(theirs) + kBegin,
                reinterpret_cast<const std::byte*>(&ours) + kBegin,
                known_bytes<Struct>(theirs->struct_size) - kBegin);
    return ok();
}

/// Element `index` of a caller's array of structs of `size` bytes.
template <class Struct>
[[nodiscard]] const Struct* element(const Struct* first,
                                    std::size_t index,
                                    std::size_t size) noexcept {
    return reinterpret_cast<const Struct*>(reinterpret_cast<const std::byte*>(first) +
                                           index * size);
}

}  // namespace hvd::rt::abi
