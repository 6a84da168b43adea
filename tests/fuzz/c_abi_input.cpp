// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/c_abi_input.hpp"

#include <algorithm>
#include <climits>
#include <limits>

namespace hvd::fuzz {
namespace {

constexpr std::size_t kLargest = 4096;  // that the library looks at
constexpr std::size_t kRoom = 4096;     // bytes behind a tensor

constexpr std::array<std::size_t, 13> kSizes{0,
                                             8,
                                             15,
                                             16,
                                             40,
                                             55,
                                             56,
                                             71,
                                             72,
                                             4096,
                                             4097,
                                             std::size_t{1} << 40,
                                             std::numeric_limits<std::size_t>::max()};
constexpr std::array<std::int32_t, 12> kDimensions{1,  1, 1,   0,   2,       3,
                                                   -1, 4, 255, 256, INT_MAX, INT_MIN};
constexpr std::array<std::int64_t, 10> kExtents{1,
                                                2,
                                                3,
                                                7,
                                                0,
                                                -1,
                                                64,
                                                std::int64_t{1} << 32,
                                                std::numeric_limits<std::int64_t>::max(),
                                                std::numeric_limits<std::int64_t>::min()};
constexpr std::array<const char*, 6> kNames{"a", "b", "c", "", "a tensor with a long name", "d"};
constexpr std::array<double, 5> kScales{1, 0.5, 0, -1, std::numeric_limits<double>::infinity()};
constexpr std::array<std::size_t, 13> kBytes{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};

}  // namespace

std::string Input::text() {
    std::string text(below(24), 'x');
    for (auto& character : text) {
        character = static_cast<char>(number<std::uint8_t>());
    }
    return text;
}

std::size_t Structs::any_size(std::size_t usual) {
    switch (input_.below(8)) {
        case 7: return input_.pick(kSizes);
        case 6: return usual + input_.below(64);
        case 5: return usual - std::min(usual, input_.below(64));
        default: return usual;
    }
}

std::size_t Structs::promised(std::size_t size) {
    // Beyond the largest struct nothing but struct_size may be looked at.
    return size > kLargest ? sizeof size : std::max(size, sizeof size);
}

std::byte* Structs::allocate(std::size_t bytes) {
    memory_.push_back(std::make_unique<std::byte[]>(bytes));  // NOLINT(modernize-avoid-c-arrays)
    return memory_.back().get();
}

void Structs::fill(std::byte* memory, std::size_t bytes, std::size_t known) {
    for (std::size_t index = 0; index < std::min(bytes, known); ++index) {
        memory[index] = std::byte{0x5a};
    }
    if (bytes > known && input_.one_in(4)) {
        memory[known + input_.below(bytes - known)] = std::byte{1};
    }
}

void Structs::store_at(std::byte* memory, const void* value, std::size_t known, std::size_t size) {
    const auto bytes = promised(size);
    fill(memory, bytes, known);
    std::memcpy(memory, value, std::min(bytes, known));
}

template <class Struct>
const Struct* Structs::store(Struct value) {
    value.struct_size = any_size(sizeof(Struct));
    auto* const memory = allocate(promised(value.struct_size));
    store_at(memory, &value, sizeof value, value.struct_size);
    return reinterpret_cast<const Struct*>(memory);
}

template <class Number>
Number* Structs::numbers(const std::vector<Number>& values) {
    auto* const memory = allocate(values.size() * sizeof(Number));
    std::ranges::copy(std::as_bytes(std::span(values)), memory);
    return reinterpret_cast<Number*>(memory);
}

const hvd_tensor* Structs::tensor() {
    if (input_.one_in(16)) {
        return nullptr;
    }
    hvd_tensor tensor{};
    tensor.ndim = input_.pick(kDimensions);
    tensor.dtype = input_.one_in(8) ? input_.number<std::int32_t>()
                                    : static_cast<std::int32_t>(input_.below(kBytes.size()));
    tensor.device_type = input_.one_in(16) ? input_.number<std::int32_t>() : 0;
    const auto dimensions = tensor.ndim < 0 || tensor.ndim > 255 ? 1 : tensor.ndim;
    std::vector<std::int64_t> shape(static_cast<std::size_t>(dimensions));
    std::vector<std::int64_t> strides(shape.size());
    const auto type = static_cast<std::size_t>(tensor.dtype);
    auto bytes = type < kBytes.size() ? kBytes[type] : 8;
    for (std::size_t index = 0; index < shape.size(); ++index) {
        shape[index] = input_.is_empty() || index > 8 ? 1 : input_.pick(kExtents);
        strides[index] = input_.pick(kExtents);
        // A size that does not fit comes without memory, and is refused.
        const auto extent = shape[index] < 0 ? 0 : static_cast<std::size_t>(shape[index]);
        bytes = extent > kRoom || bytes > kRoom ? kRoom + 1 : bytes * extent;
    }
    tensor.shape = input_.one_in(32) ? nullptr : numbers(shape);
    tensor.strides = input_.one_in(4) ? numbers(strides) : nullptr;
    tensor.data = bytes > kRoom ? nullptr : allocate(bytes);
    return store(tensor);
}

hvd_request Structs::request() {
    hvd_request request{};
    request.name = input_.one_in(32) ? nullptr : input_.pick(kNames);
    request.op = input_.one_in(16) ? input_.number<std::int32_t>()
                                   : static_cast<std::int32_t>(input_.below(8));
    request.in = request.op == HVD_BARRIER || request.op == HVD_JOIN ? nullptr : tensor();
    request.out = input_.one_in(4) ? tensor() : (input_.one_in(2) ? request.in : nullptr);
    request.prescale = input_.pick(kScales);
    request.postscale = input_.pick(kScales);
    request.group = input_.below(3);
    request.reduce_op = static_cast<std::int32_t>(input_.below(8)) - 1;
    request.root = static_cast<std::int32_t>(input_.below(16) / 15);
    request.process_set = static_cast<std::int32_t>(input_.below(16) / 15);
    request.average_over = static_cast<std::int32_t>(input_.below(16) / 13);
    const auto wire = static_cast<std::int32_t>(input_.below(16));  // mostly the tensor's own
    request.wire_dtype = wire < 3 ? HVD_INT64 + wire : 0;           // one is none, two are halves
    if (input_.one_in(4)) {
        // More splits than ranks are refused unread.
        request.splits = numbers(std::vector<std::int64_t>{input_.pick(kExtents)});
        request.split_count = input_.one_in(4) ? input_.number<std::size_t>() | 2U : 1;
    }
    return request;
}

Structs::Requests Structs::requests() {
    constexpr std::array<std::size_t, 9> kCounts{
        1, 1, 1, 2, 3, 8, 0, 100'000'000, std::numeric_limits<std::size_t>::max()};
    if (input_.one_in(32)) {
        return {.first = nullptr, .count = input_.below(4)};
    }
    const auto count = input_.pick(kCounts);
    const auto size = any_size(sizeof(hvd_request));
    // An array of many more requests than there are tickets is refused unread.
    const auto present = count > 8 || size > kLargest ? 1 : std::max<std::size_t>(count, 1);
    auto* const memory = allocate(promised(size) * present);
    for (std::size_t index = 0; index < present; ++index) {
        auto next = request();
        next.struct_size = size;
        store_at(memory + index * promised(size), &next, sizeof next, size);
    }
    return {.first = reinterpret_cast<const hvd_request*>(memory), .count = count};
}

hvd_process_set Structs::members() {
    hvd_process_set set{};
    std::vector<std::int32_t> ranks(input_.below(4));
    for (auto& rank : ranks) {
        rank = static_cast<std::int32_t>(input_.below(4)) - 1;
    }
    set.ranks = input_.one_in(16) ? nullptr : numbers(ranks);
    set.count = input_.one_in(16) ? std::numeric_limits<std::size_t>::max() : ranks.size();
    return set;
}

const hvd_process_set* Structs::set() {
    return input_.one_in(16) ? nullptr : store(members());
}

const hvd_init_options* Structs::options() {
    hvd_init_options options{};
    options.timeout_ms = input_.pick(kExtents);
    if (input_.one_in(4)) {
        options.process_sets = set();
        options.process_set_count = input_.below(2);
    }
    options.dynamic_process_sets = static_cast<std::int32_t>(input_.below(16) / 14);
    return store(options);
}

}  // namespace hvd::fuzz
