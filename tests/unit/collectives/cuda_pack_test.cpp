// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/pack_plan.hpp"
#include "collectives/reduce/half.hpp"
#include "collectives/reduce/reducer.hpp"
#include "tests/support/gpu/pack_twin.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::size_of;
using hvd::coll::cuda::is_copy;
using hvd::coll::cuda::lay_out;
using hvd::coll::cuda::pack_kernel;
using hvd::coll::cuda::PackChange;
using hvd::coll::cuda::PackEntry;
using hvd::coll::cuda::plan_pack;
using hvd::test::gpu::find_kernel;

namespace {

constexpr std::size_t kMargin = 64;  // bytes around everything that is written

using Bytes = std::vector<std::byte>;
__extension__ using Int128 = __int128;

#define LIST_TYPES(from, to) PackChange{DataType::from, DataType::to, 1, 1},
const std::vector<PackChange> kChanges{HVD_PACK_KERNELS(LIST_TYPES)};
#undef LIST_TYPES

template <class T>
T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

/// Values as the widest of their kind, in which every conversion is plain.
long double as_float(DataType type, const std::byte* at) {
    switch (type) {
        case DataType::f16: return hvd::coll::f16_to_f32(read<std::uint16_t>(at));
        case DataType::bf16: return hvd::coll::bf16_to_f32(read<std::uint16_t>(at));
        case DataType::f32: return read<float>(at);
        default: return read<double>(at);
    }
}

template <class T>
void write(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof(T));
}

void write_float(DataType type, std::byte* at, double value) {
    switch (type) {
        case DataType::f16: write(at, hvd::coll::f32_to_f16(static_cast<float>(value))); break;
        case DataType::bf16: write(at, hvd::coll::f32_to_bf16(static_cast<float>(value))); break;
        case DataType::f32: write(at, static_cast<float>(value)); break;
        default: write(at, value);
    }
}

bool is_float(DataType type) {
    return type >= DataType::f16;
}

bool is_signed(DataType type) {
    return type == DataType::i8 || type == DataType::i16 || type == DataType::i32 ||
           type == DataType::i64;
}

Int128 as_integer(DataType type, const std::byte* at) {
    const auto bytes = size_of(type);
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, bytes);
    if (is_signed(type) && bytes < 8 && (bits >> (8 * bytes - 1)) != 0) {
        bits |= ~std::uint64_t{0} << (8 * bytes);
    }
    return is_signed(type) ? Int128{static_cast<std::int64_t>(bits)} : Int128{bits};
}

/// One value, the slow way.
void plain(const PackChange& change, const std::byte* from, std::byte* to) {
    if (is_float(change.from)) {
        auto value = as_float(change.from, from);
        if (change.from == DataType::f64 || change.to == DataType::f64) {
            auto wide = static_cast<double>(value);
            wide = change.divisor == 1 ? wide : wide / static_cast<double>(change.divisor);
            value = change.factor == 1 ? wide : wide * change.factor;
        } else {
            auto narrow = static_cast<float>(value);
            narrow = change.divisor == 1 ? narrow : narrow / static_cast<float>(change.divisor);
            value = change.factor == 1 ? narrow : narrow * static_cast<float>(change.factor);
        }
        write_float(change.to, to, static_cast<double>(value));
        return;
    }
    auto value = as_integer(change.from, from);
    if (change.factor != 1) {
        const auto type = size_of(change.from) < size_of(change.to) ? change.from : change.to;
        const auto bits = static_cast<unsigned>(8 * size_of(type));
        const Int128 one = 1;
        const auto low = is_signed(type) ? -(one << (bits - 1)) : Int128{0};
        const auto high = (one << (is_signed(type) ? bits - 1 : bits)) - 1;
        const double scaled =
            static_cast<double>(value) * change.factor / static_cast<double>(change.divisor);
        value = scaled >= static_cast<double>(high)  ? high
                : scaled <= static_cast<double>(low) ? low
                                                     : static_cast<Int128>(scaled);
    } else {
        value /= change.divisor;
    }
    std::memcpy(to, &value, size_of(change.to));
}

bool is_nan(DataType type, const std::byte* at) {
    const auto value = is_float(type) ? as_float(type, at) : 0.0L;
    return value != value;
}

/// The index of the first element that differs, or -1. NaNs are equal.
int first_difference(DataType type, const std::byte* a, const std::byte* b, std::size_t count) {
    const auto bytes = size_of(type);
    for (std::size_t i = 0; i < count; ++i) {
        const auto* const one = a + i * bytes;
        const auto* const other = b + i * bytes;
        if (std::memcmp(one, other, bytes) != 0 && !(is_nan(type, one) && is_nan(type, other))) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

Bytes random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 generator(seed);
    Bytes bytes(count);
    for (auto& byte : bytes) {
        byte = static_cast<std::byte>(generator());
    }
    return bytes;
}

/// Tensors at any distance from alignment, in one allocation.
struct Tensors {
    Bytes memory;
    std::vector<PackEntry> entries;

    Tensors(const std::vector<std::size_t>& counts, std::size_t bytes, std::size_t shift) {
        std::size_t total = 2 * kMargin;
        for (const auto count : counts) {
            total += count * bytes + 2 * kMargin;
        }
        memory = random_bytes(total, static_cast<unsigned>(total + shift));
        auto* next = memory.data();
        std::size_t place = 0;
        for (const auto count : counts) {
            const auto address = reinterpret_cast<std::uintptr_t>(next);
            next += (kMargin - address % kMargin) + (shift + place++) * bytes % kMargin;
            entries.push_back({next, 0, count});
            next += count * bytes;
        }
    }
};

/// Runs the planned kernel, with another tile size where it is given. Rejects writes outside of
/// the tensors and the buffer.
void run(const PackChange& change,
         bool is_pack,
         const std::vector<PackEntry>& entries,
         std::byte* fused,
         std::uint64_t tile,
         unsigned blocks) {
    auto launch = plan_pack(change, is_pack, entries, entries.data(), fused, 3);
    REQUIRE(launch);
    const auto* const kernel = find_kernel(launch->kernel);
    REQUIRE(kernel != nullptr);
    if (tile != 0) {
        launch->arguments.tile = tile;
        launch->blocks = blocks;
    }
    kernel->run(launch->arguments, launch->blocks, launch->threads);
}

/// Fills the buffer (pack) or the tensors (unpack) as the kernel must, by a plain loop over a copy.
void expect(const PackChange& change,
            bool is_pack,
            const std::vector<PackEntry>& entries,
            const std::byte* fused_before,
            std::byte* fused,
            const std::byte* tensors_before,
            const std::byte* tensors) {
    const auto step = is_copy(change) ? 1 : size_of(is_pack ? change.to : change.from);
    for (const auto& entry : entries) {
        const auto* const in_fused = fused + entry.offset * step;
        const auto* const source = is_pack ? tensors_before + (entry.tensor - tensors)
                                           : fused_before + entry.offset * step;
        const auto* const target = is_pack ? in_fused : entry.tensor;
        if (is_copy(change)) {
            CHECK(std::equal(source, source + entry.count, target));
            continue;
        }
        Bytes wanted(entry.count * size_of(change.to));
        for (std::size_t i = 0; i < entry.count; ++i) {
            plain(change, source + i * size_of(change.from),
                  wanted.data() + i * size_of(change.to));
        }
        CHECK(first_difference(change.to, target, wanted.data(), entry.count) == -1);
    }
}

/// That bytes outside of the written ranges are as before.
void check_rest(const Bytes& before,
                const Bytes& after,
                const std::vector<std::pair<std::size_t, std::size_t>>& written) {
    std::size_t at = 0;
    for (const auto& [begin, bytes] : written) {
        CHECK(std::equal(before.begin() + static_cast<long>(at),
                         before.begin() + static_cast<long>(begin),
                         after.begin() + static_cast<long>(at)));
        at = begin + bytes;
    }
    CHECK(std::equal(before.begin() + static_cast<long>(at), before.end(),
                     after.begin() + static_cast<long>(at)));
}

void check_move(const PackChange& change,
                bool is_pack,
                const std::vector<std::size_t>& counts,
                std::size_t shift,
                std::uint64_t tile,
                unsigned blocks) {
    CAPTURE(std::string(*pack_kernel(change)), is_pack, counts, shift, tile, blocks);
    const auto tensor_type = is_pack ? change.from : change.to;
    const auto fused_type = is_pack ? change.to : change.from;
    const auto unit = is_copy(change) ? size_of(change.from) : std::size_t{1};
    const auto tensor_bytes = is_copy(change) ? 1 : size_of(tensor_type);
    const auto fused_bytes = is_copy(change) ? 1 : size_of(fused_type);
    std::vector<std::size_t> elements;
    for (const auto count : counts) {
        elements.push_back(count * unit);
    }
    Tensors tensors(elements, tensor_bytes, shift);
    const auto total = lay_out(tensors.entries, fused_bytes);
    auto buffer = random_bytes(total * fused_bytes + 3 * kMargin, 7);
    auto* fused = buffer.data() + kMargin;
    fused += kMargin - reinterpret_cast<std::uintptr_t>(fused) % kMargin;
    const auto fused_at = static_cast<std::size_t>(fused - buffer.data());
    const auto before = buffer;
    const auto tensors_before = tensors.memory;

    run(change, is_pack, tensors.entries, fused, tile, blocks);

    expect(change, is_pack, tensors.entries, before.data() + fused_at, fused, tensors_before.data(),
           tensors.memory.data());
    std::vector<std::pair<std::size_t, std::size_t>> written;
    for (const auto& entry : tensors.entries) {
        written.emplace_back(is_pack
                                 ? fused_at + entry.offset * fused_bytes
                                 : static_cast<std::size_t>(entry.tensor - tensors.memory.data()),
                             entry.count * (is_pack ? fused_bytes : tensor_bytes));
    }
    check_rest(is_pack ? before : tensors_before, is_pack ? buffer : tensors.memory, written);
    CHECK((is_pack ? tensors.memory == tensors_before : buffer == before));
}

/// Every kernel.
std::vector<PackChange> all_changes() {
    auto changes = kChanges;
    for (auto& change : changes) {
        change.factor = change.from == change.to ? 0.5 : 1;
    }
    for (const auto type : {DataType::u8, DataType::bf16, DataType::f32, DataType::f64}) {
        changes.push_back({type, type, 1, 1});
    }
    return changes;
}

}  // namespace

TEST_CASE("every kernel of the plan has a twin") {
    for (const auto& change : kChanges) {
        const PackChange scaled{change.from, change.to, 2, 1};
        REQUIRE(pack_kernel(scaled));
        CHECK(find_kernel(*pack_kernel(scaled)) != nullptr);
    }
    CHECK(pack_kernel({DataType::boolean, DataType::boolean, 1, 1}) == "hvd_copy");
    CHECK_FALSE(pack_kernel({DataType::boolean, DataType::boolean, 2, 1}));
    CHECK_FALSE(pack_kernel({DataType::f32, DataType::i32, 1, 1}));
    CHECK(find_kernel("hvd_nothing") == nullptr);
}

TEST_CASE("pack and unpack are exact at every size and alignment") {
    const bool is_pack = GENERATE(true, false);
    const auto shift = static_cast<std::size_t>(GENERATE(range(0, 17)));
    for (const auto& change : all_changes()) {
        std::vector<std::size_t> counts;
        for (std::size_t count = 0; count < 70; ++count) {
            counts.push_back(count);
        }
        check_move(change, is_pack, counts, shift, 0, 0);
    }
}

TEST_CASE("tiles of any size, and any number of warps, give the same") {
    const auto tile = static_cast<std::uint64_t>(GENERATE(16, 48, 256, 4096));
    const auto blocks = static_cast<unsigned>(GENERATE(1, 2, 7));
    const std::vector<std::size_t> counts{1, 0, 1000, 3, 16, 15, 17, 4096, 0, 0, 5, 2049};
    for (const auto& change : all_changes()) {
        check_move(change, true, counts, 1, tile, blocks);
        check_move(change, false, counts, 0, tile, blocks);
    }
}

TEST_CASE("scaling and averaging convert each value once") {
    struct Step {
        double factor;
        std::int64_t divisor;
    };
    const auto step = GENERATE(
        values<Step>({{0.5, 1}, {1, 3}, {1.5, 7}, {-1, 1}, {0.1, 1000}, {1e300, 1}, {0, 1}}));
    const bool is_pack = GENERATE(true, false);
    for (auto change : kChanges) {
        change.factor = step.factor;
        change.divisor = step.divisor;
        check_move(change, is_pack, {513, 64, 7}, 3, 0, 0);
    }
}

TEST_CASE("a change within one type is what the CPU's arithmetic makes of a result") {
    constexpr std::size_t kCount = 1000;
    for (auto change : kChanges) {
        if (change.from != change.to) {
            continue;
        }
        for (const auto factor : {1.0, 0.75}) {
            change.factor = factor;
            change.divisor = 3;
            CAPTURE(hvd::coll::to_string(change.from), factor);
            auto input = random_bytes(kCount * size_of(change.from), 11);
            Bytes wanted(input.size());
            const std::byte* in = input.data();
            std::byte* out = wanted.data();
            hvd::coll::Reducer({.reduce = hvd::coll::ReduceOp::average,
                                .type = change.from,
                                .postscale = factor,
                                .divisor = 3},
                               1)
                .run({&in, 1}, {&out, 1}, kCount);
            Bytes fused(input.size() + kMargin);
            auto* const aligned =
                fused.data() + (16 - reinterpret_cast<std::uintptr_t>(fused.data()) % 16);
            const std::vector<PackEntry> entries{{input.data(), 0, kCount}};

            run(change, true, entries, aligned, 0, 0);

            CHECK(first_difference(change.from, aligned, wanted.data(), kCount) == -1);
        }
    }
}

TEST_CASE("tensors lie at multiples of 16 bytes in the buffer") {
    std::vector<PackEntry> entries{
        {nullptr, 0, 1}, {nullptr, 0, 0}, {nullptr, 0, 9}, {nullptr, 0, 2}};

    CHECK(lay_out(entries, 2) == 26);
    CHECK(entries[1].offset == 8);
    CHECK(entries[2].offset == 8);
    CHECK(entries[3].offset == 24);
    CHECK(lay_out({}, 4) == 0);
}

TEST_CASE("a launch fills the GPU and no more") {
    const auto launch = [](std::uint64_t count) {
        const PackEntry entry{nullptr, 0, count};
        return *plan_pack({DataType::f32, DataType::f32, 2, 1}, true, {&entry, 1}, nullptr, nullptr,
                          132);
    };

    CHECK(launch(0).blocks == 0);
    CHECK(launch(1).blocks == 1);
    CHECK(launch(std::uint64_t{1} << 33U).blocks == 132 * 32 / 8);
    CHECK(launch(std::uint64_t{1} << 33U).arguments.tile == 65536 / 4);
    CHECK(launch(std::uint64_t{1} << 20U).arguments.tile == 2048 / 4);
}
