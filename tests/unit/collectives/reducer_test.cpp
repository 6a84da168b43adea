// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/reducer.hpp"

#include "collectives/base/error.hpp"
#include "collectives/reduce/half.hpp"
#include "collectives/reduce/half_sums.hpp"
#include "tests/support/exact_data.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace hvd::coll {
namespace {

template <class T>
std::vector<T> reduce(const Task& task, const std::vector<std::vector<T>>& inputs) {
    std::vector<T> out(inputs.front().size());
    std::vector<const std::byte*> from;
    from.reserve(inputs.size());
    for (const auto& input : inputs) {
        from.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    auto* to = reinterpret_cast<std::byte*>(out.data());
    Reducer(task, static_cast<int>(inputs.size())).run(from, {&to, 1}, out.size());
    return out;
}

template <class T>
T reduce_one(const Task& task, const std::vector<T>& values) {
    std::vector<std::vector<T>> inputs;
    inputs.reserve(values.size());
    for (const T value : values) {
        inputs.push_back({value});
    }
    return reduce(task, inputs).front();
}

Task task_of(DataType type, ReduceOp op, double prescale = 1, double postscale = 1) {
    return {.op = Op::allreduce,
            .reduce = op,
            .type = type,
            .prescale = prescale,
            .postscale = postscale};
}

TEST_CASE("every type and operation gives the exact result at every length") {
    const auto type = GENERATE(from_range(std::begin(test::kAllTypes), std::end(test::kAllTypes)));
    const auto op =
        GENERATE(from_range(std::begin(test::kAllReduceOps), std::end(test::kAllReduceOps)));
    if (type == DataType::boolean && op == ReduceOp::average) {
        return;
    }
    for (const int ranks : {1, 2, 3, 7}) {
        const test::ExactCase what{.type = type, .op = op, .size = ranks};
        for (std::size_t count = 0; count < 150; count = count < 40 ? count + 1 : count + 13) {
            std::vector<std::vector<std::byte>> inputs;
            std::vector<const std::byte*> from;
            from.reserve(static_cast<std::size_t>(ranks));
            for (int rank = 0; rank < ranks; ++rank) {
                from.push_back(inputs.emplace_back(exact_inputs(what, rank, count)).data());
            }
            std::vector<std::byte> out(count * size_of(type));
            auto* to = out.data();

            Reducer(task_of(type, op), ranks).run(from, {&to, 1}, count);

            CHECK_THAT(test::differs_from_result(what, out.data(), count), Catch::Equals(""));
        }
    }
}

TEST_CASE("all outputs get the result, and an output may be an input") {
    std::vector<float> one(1000, 1);
    std::vector<float> two(1000, 2);
    std::vector<float> three(1000);
    const std::array<const std::byte*, 2> from{reinterpret_cast<std::byte*>(one.data()),
                                               reinterpret_cast<std::byte*>(two.data())};
    const std::array<std::byte*, 3> to{reinterpret_cast<std::byte*>(two.data()),
                                       reinterpret_cast<std::byte*>(three.data()),
                                       reinterpret_cast<std::byte*>(one.data())};

    Reducer(task_of(DataType::f32, ReduceOp::sum), 2).run(from, to, 1000, 1);

    const std::vector<float> expected(1000, 3);
    CHECK(one == expected);
    CHECK(two == expected);
    CHECK(three == expected);
}

TEST_CASE("floats are added in the order of the ranks") {
    CHECK(reduce_one<float>(task_of(DataType::f32, ReduceOp::sum), {1e8F, 1, -1e8F, 1}) == 1);
    CHECK(reduce_one<float>(task_of(DataType::f32, ReduceOp::sum), {1e8F, -1e8F, 1, 1}) == 2);
}

#if defined(__x86_64__)  // elsewhere the loops are compiled once
/// Elements of all magnitudes, subnormals included; no infinity and no NaN.
std::vector<std::byte> random_elements(DataType type, std::size_t count, std::mt19937_64& random) {
    std::vector<std::byte> elements(count * size_of(type));
    const auto fill = [&](auto exponent) {
        using Bits = decltype(exponent);
        for (std::size_t index = 0; index < count; ++index) {
            auto bits = static_cast<Bits>(random());
            if (exponent != 0 && (bits & exponent) == exponent) {
                bits = static_cast<Bits>(bits ^ exponent);
            }
            std::memcpy(&elements[index * sizeof bits], &bits, sizeof bits);
        }
    };
    switch (type) {
        case DataType::f16: fill(std::uint16_t{0x7c00}); break;
        case DataType::bf16: fill(std::uint16_t{0x7f80}); break;
        case DataType::f32: fill(std::uint32_t{0x7f800000}); break;
        case DataType::f64: fill(std::uint64_t{0x7ff0000000000000}); break;
        case DataType::u64: fill(std::uint64_t{0}); break;
        default: fill(std::uint32_t{0}); break;
    }
    return elements;
}

bool is_nan(DataType type, const std::byte* element) {
    const auto as = [&](auto bits) {
        std::memcpy(&bits, element, sizeof bits);
        return bits;
    };
    switch (type) {
        case DataType::f16: return std::isnan(f16_to_f32(as(std::uint16_t{})));
        case DataType::bf16: return std::isnan(bf16_to_f32(as(std::uint16_t{})));
        case DataType::f32: return std::isnan(as(float{}));
        case DataType::f64: return std::isnan(as(double{}));
        default: return false;
    }
}

TEST_CASE("the loops of every instruction set give the same bits") {
    const auto type = GENERATE(DataType::f16, DataType::bf16, DataType::f32, DataType::f64,
                               DataType::i32, DataType::u64);
    const auto op = GENERATE(ReduceOp::sum, ReduceOp::average);
    const auto factor = GENERATE(1.0, 0.3);
    const auto use_avx512 = GENERATE(false, true);
    const bool is_float = type >= DataType::f16;
    // An int or a bool, by the compiler.
    const auto is_supported = static_cast<bool>(use_avx512 ? __builtin_cpu_supports("avx512bw")
                                                           : __builtin_cpu_supports("avx2"));
    if (!is_supported || (!is_float && (op == ReduceOp::average || factor != 1))) {
        return;
    }
    CAPTURE(to_string(type), to_string(op), factor, use_avx512);
    constexpr std::size_t kCount = 2053;
    std::mt19937_64 random(7);
    std::vector<std::vector<std::byte>> inputs;
    std::vector<const std::byte*> from;
    from.reserve(3);
    for (int rank = 0; rank < 3; ++rank) {
        from.push_back(inputs.emplace_back(random_elements(type, kCount, random)).data());
    }
    std::vector<std::byte> out(kCount * size_of(type));
    std::vector<std::byte> expected(out.size());
    auto* to = out.data();
    kernels::ReduceArgs args{.inputs = from.data(),
                             .input_count = 3,
                             .outputs = &to,
                             .output_count = 1,
                             .count = kCount,
                             .prescale = factor,
                             .postscale = factor,
                             .divisor = op == ReduceOp::average ? 3 : 1};

    const auto kernel =
        use_avx512 ? kernels::avx512_kernel(type, op) : kernels::avx2_kernel(type, op);
    const std::size_t done = kernel(args);
    to = expected.data();
    kernels::generic_kernel(type, op, factor != 1)(args);

    CHECK(kCount - done < 16);
    std::size_t different = 0;
    for (std::size_t index = 0; index < done; ++index) {
        const auto* one = &out[index * size_of(type)];
        const auto* other = &expected[index * size_of(type)];
        const bool is_same = std::memcmp(one, other, size_of(type)) == 0;
        // Infinity minus infinity gives a NaN, whose sign is nobody's business.
        different += is_same || (is_nan(type, one) && is_nan(type, other)) ? 0 : 1;
    }
    CHECK(different == 0);
}
#endif

TEST_CASE("float16 is added in float32 and rounded once") {
    const std::uint16_t big = f32_to_f16(2048);
    const std::uint16_t one = f32_to_f16(1);
    // In float16 each 2048 + 1 would round back to 2048.
    const auto sum =
        reduce_one<std::uint16_t>(task_of(DataType::f16, ReduceOp::sum), {big, one, one, one, one});
    CHECK(f16_to_f32(sum) == 2052);
    // A sum beyond float16's range that comes back is no infinity.
    const auto back =
        reduce_one<std::uint16_t>(task_of(DataType::f16, ReduceOp::sum),
                                  {f32_to_f16(60000), f32_to_f16(60000), f32_to_f16(-60000)});
    CHECK(f16_to_f32(back) == 60000);
}

TEST_CASE("integer sums wrap in their own width, averages do not") {
    const std::vector<std::int8_t> bytes{100, 100, 100};
    CHECK(reduce_one(task_of(DataType::i8, ReduceOp::sum), bytes) == 44);
    CHECK(reduce_one(task_of(DataType::i8, ReduceOp::average), bytes) == 100);
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
    CHECK(reduce_one<std::int64_t>(task_of(DataType::i64, ReduceOp::average), {kMost, kMost}) ==
          kMost);
    CHECK(reduce_one<std::int64_t>(task_of(DataType::i64, ReduceOp::sum), {kMost, 1}) == kLeast);
    constexpr auto kMostU = std::numeric_limits<std::uint64_t>::max();
    CHECK(reduce_one<std::uint64_t>(task_of(DataType::u64, ReduceOp::average),
                                    {kMostU, kMostU, kMostU}) == kMostU);
    CHECK(reduce_one<std::uint16_t>(task_of(DataType::u16, ReduceOp::product), {65535, 65535}) ==
          1);
}

TEST_CASE("an integer average is cut towards zero, once") {
    const auto average = task_of(DataType::i32, ReduceOp::average);
    CHECK(reduce_one<std::int32_t>(average, {1, 2}) == 1);
    CHECK(reduce_one<std::int32_t>(average, {-1, -2}) == -1);
    CHECK(reduce_one<std::int32_t>(average, {-1, 0}) == 0);
    CHECK(reduce_one<std::int32_t>(average, {1, 1, 0}) == 0);
    // With a factor, too: 3 / 2 * 2 is 3.
    const auto scaled = task_of(DataType::i32, ReduceOp::average, 1, 2);
    CHECK(reduce_one<std::int32_t>(scaled, {1, 2}) == 3);
}

TEST_CASE("scaled integers are cut towards zero per input and saturate in the result") {
    const auto half = task_of(DataType::i32, ReduceOp::sum, 0.5);
    CHECK(reduce_one<std::int32_t>(half, {3, 3}) == 2);
    CHECK(reduce_one<std::int32_t>(half, {-3, -3}) == -2);
    const auto tripled = task_of(DataType::i8, ReduceOp::sum, 1, 3);
    CHECK(reduce_one<std::int8_t>(tripled, {100, 100}) == 127);
    CHECK(reduce_one<std::int8_t>(tripled, {-100, -100}) == -128);
    const auto doubled = task_of(DataType::i8, ReduceOp::sum, 2);
    CHECK(reduce_one<std::int8_t>(doubled, {60, 60}) == 127);
    CHECK(reduce_one<std::int8_t>(doubled, {-60, -60}) == -128);
    const auto most = std::numeric_limits<std::int64_t>::max();
    const auto large = task_of(DataType::i64, ReduceOp::sum, 2);
    CHECK(reduce_one<std::int64_t>(large, {most / 4 + 1, most / 4 + 1}) == most);
    const auto huge = task_of(DataType::i64, ReduceOp::max, 1e30);
    CHECK(reduce_one<std::int64_t>(huge, {5, 7}) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("a NaN wins minimum and maximum from every rank") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (const auto op : {ReduceOp::min, ReduceOp::max}) {
        CHECK(std::isnan(reduce_one<float>(task_of(DataType::f32, op), {kNan, 1, 2})));
        CHECK(std::isnan(reduce_one<float>(task_of(DataType::f32, op), {1, kNan, 2})));
        CHECK(std::isnan(reduce_one<float>(task_of(DataType::f32, op), {1, 2, kNan})));
    }
}

TEST_CASE("any byte but 0 is true") {
    CHECK(reduce_one<std::uint8_t>(task_of(DataType::boolean, ReduceOp::sum), {0, 7}) == 1);
    CHECK(reduce_one<std::uint8_t>(task_of(DataType::boolean, ReduceOp::max), {0, 0}) == 0);
    CHECK(reduce_one<std::uint8_t>(task_of(DataType::boolean, ReduceOp::product), {2, 4}) == 1);
    CHECK(reduce_one<std::uint8_t>(task_of(DataType::boolean, ReduceOp::min), {2, 0}) == 0);
}

TEST_CASE("an average of bool is refused") {
    CHECK_THROWS_AS(Reducer(task_of(DataType::boolean, ReduceOp::average), 2), Exception);
}

TEST_CASE("halves that are added up elsewhere get the same bits") {
    const auto type = GENERATE(DataType::f16, DataType::bf16);
    const auto op = GENERATE(ReduceOp::sum, ReduceOp::average, ReduceOp::product);
    const auto factor = GENERATE(1.0, 0.7);
    CAPTURE(type, op, factor);
    const auto task = task_of(type, op, factor, factor);
    std::mt19937 dice(7);  // NOLINT(bugprone-random-generator-seed): the same each time
    std::vector<std::vector<std::uint16_t>> inputs(3, std::vector<std::uint16_t>(4096));
    for (auto& input : inputs) {
        for (auto& bits : input) {
            bits = static_cast<std::uint16_t>(dice());  // infinities and NaNs, too
        }
    }

    const HalfSums sums(task, 3);
    std::vector<float> partial(4096);
    std::vector<float> other(4096);
    sums.widen(reinterpret_cast<const std::byte*>(inputs[0].data()), partial);
    for (const auto rank : {1U, 2U}) {
        sums.widen(reinterpret_cast<const std::byte*>(inputs[rank].data()), other);
        float_combiner(op)(partial.data(), other.data(), 4096);
        std::swap(partial, other);
    }
    std::vector<std::uint16_t> found(4096);
    sums.finish(partial, reinterpret_cast<std::byte*>(found.data()));

    const auto to_f32 = type == DataType::f16 ? f16_to_f32 : bf16_to_f32;
    const auto expected = reduce(task, inputs);
    for (std::size_t index = 0; index < found.size(); ++index) {
        const bool is_nan = std::isnan(to_f32(expected[index]));
        CAPTURE(index, expected[index]);
        REQUIRE((found[index] == expected[index] || (is_nan && std::isnan(to_f32(found[index])))));
    }
}

}  // namespace
}  // namespace hvd::coll
