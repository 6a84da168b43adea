// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/data.hpp"
#include "apps/hvd-bench/options.hpp"
#include "apps/hvd-bench/table.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using hvd::bench::Line;
using hvd::bench::Mode;
using hvd::bench::Shape;
using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;

namespace {

using Bytes = std::vector<std::byte>;

std::string refusal(std::vector<const char*> words) {
    words.insert(words.begin(), "hvd-bench");
    const auto parsed = hvd::bench::parse_options(static_cast<int>(words.size()), words.data());
    return parsed ? "" : parsed.error().message;
}

Bytes input_of(Shape shape, int rank, std::uint64_t round) {
    shape.rank = rank;
    Bytes input(shape.count * hvd::coll::size_of(shape.type));
    hvd::bench::fill_input(shape, round, input);
    return input;
}

}  // namespace

TEST_CASE("bandwidths are those of nccl-tests") {
    struct Example {
        Op op;
        int ranks;
        double algorithm;
        double bus;
    };
    const auto& example = GENERATE(values<Example>({
        {Op::allreduce, 4, 2, 3},  // bytes / time; 2 (n - 1) / n of it
        {Op::allgather, 4, 8, 6},  // bytes of all / time; (n - 1) / n of it
        {Op::broadcast, 4, 2, 2},  // bytes / time, the same on the bus
        {Op::allreduce, 1, 2, 0},  // nothing crosses a bus
        {Op::barrier, 4, 0, 0},
    }));
    CAPTURE(hvd::coll::to_string(example.op), example.ranks);

    const auto found = hvd::bench::bandwidth_of(
        {.op = example.op}, {.mode = Mode::loop, .bytes = 2'000'000, .time_us = 1000},
        example.ranks);

    CHECK(found.algorithm == Approx(example.algorithm));
    CHECK(found.bus == Approx(example.bus));
}

TEST_CASE("a row of the CSV file has the columns of its header") {
    CHECK(std::string(hvd::bench::kCsvHeader) ==
          "collective,dtype,op,bytes,ranks,mode,time_us,algbw,busbw,errors\n");

    const Line line{.mode = Mode::touch, .bytes = 4000, .time_us = 2.5, .errors = 3};
    CHECK(hvd::bench::csv_line({.type = DataType::f16}, line, 2) ==
          "allreduce,float16,sum,4000,2,touch,2.500,1.6000,1.6000,3\n");
    CHECK(hvd::bench::csv_line({.op = Op::broadcast}, line, 2) ==
          "broadcast,float32,-,4000,2,touch,2.500,1.6000,1.6000,3\n");
}

TEST_CASE("a wrong element is found in every type and collective") {
    const auto op = GENERATE(Op::allreduce, Op::allgather, Op::broadcast);
    const auto type = GENERATE(DataType::boolean, DataType::u8, DataType::i16, DataType::i64,
                               DataType::f16, DataType::bf16, DataType::f32, DataType::f64);
    CAPTURE(hvd::coll::to_string(op), hvd::coll::to_string(type));
    constexpr std::uint64_t kRound = 4;
    // A world of one reduces to its own input; the others have that of the root, or of both.
    const Shape shape{.op = op, .type = type, .size = op == Op::allreduce ? 1 : 2, .count = 200};
    auto output = input_of(shape, 0, kRound);
    if (op == Op::allgather) {
        const auto second = input_of(shape, 1, kRound);
        output.insert(output.end(), second.begin(), second.end());
    }

    CHECK(hvd::bench::count_errors(shape, kRound, output) == 0);
    CHECK(hvd::bench::count_errors(shape, kRound + 1, output) > 0);  // of another round
    output[output.size() / 2] ^= std::byte{1};
    CHECK(hvd::bench::count_errors(shape, kRound, output) == 1);
}

TEST_CASE("ranks differ, and their sum, minimum and average are known") {
    const auto reduce =
        GENERATE(ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product, ReduceOp::average);
    const Shape shape{.reduce = reduce, .type = DataType::u8, .size = 2, .count = 100};
    const auto first = input_of(shape, 0, 0);
    const auto second = input_of(shape, 1, 0);
    Bytes output(first.size());
    for (std::size_t index = 0; index < output.size(); ++index) {
        const auto a = std::to_integer<int>(first[index]);
        const auto b = std::to_integer<int>(second[index]);
        switch (reduce) {
            case ReduceOp::sum: output[index] = std::byte(a + b); break;
            case ReduceOp::min: output[index] = std::byte(std::min(a, b)); break;
            case ReduceOp::max: output[index] = std::byte(std::max(a, b)); break;
            case ReduceOp::product: output[index] = std::byte(a * b); break;
            case ReduceOp::average: output[index] = std::byte((a + b) / 2); break;
            case ReduceOp::adasum: break;
        }
    }

    CHECK(first != second);
    CHECK(hvd::bench::count_errors(shape, 0, output) == 0);
    CHECK(hvd::bench::count_errors(shape, 0, first) > 0);
}

TEST_CASE("flags of the benchmark that it does not know are refused") {
    CHECK(refusal({}) == "");
    CHECK(refusal({"--min", "1K", "--max", "1M", "--dtype", "bfloat16", "--op", "max"}) == "");
    const std::vector<std::pair<std::vector<const char*>, std::string>> examples{
        {{"--collective", "alltoall"}, "allreduce, allgather, broadcast or barrier"},
        {{"--op", "mean"}, "--op 'mean': expected average, sum, min, max or product"},
        {{"--dtype", "complex"}, "--dtype 'complex': expected float32"},
        {{"--min", "2M", "--max", "1M"}, "--min and --max '2M and 1M': expected bytes"},
        {{"--min", "-4"}, "expected bytes such as 4, 64K, 1M"},
        {{"--mode", "both"}, "--mode 'both': expected loop or touch"},
        {{"--iters", "0"}, "--iters must be at least 1, --factor at least 2"},
        {{"--factor", "1"}, "--iters must be at least 1, --factor at least 2"},
        {{"--iters", "many"}, "'many'"},
        {{"--coll", "barrier"}, "--coll"},  // no abbreviations
        {{"--csv"}, "--csv"},
        {{"4M"}, "'4M' is no flag; see hvd-bench --help"},
    };
    for (const auto& [flags, expected] : examples) {
        CAPTURE(flags);
        CHECK_THAT(refusal(flags), Catch::Contains(expected));
    }
}
