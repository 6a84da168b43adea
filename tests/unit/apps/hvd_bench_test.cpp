// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/data.hpp"
#include "apps/hvd-bench/options.hpp"
#include "apps/hvd-bench/table.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

using hvd::ReduceOp;
using hvd::bench::Collective;
using hvd::bench::Line;
using hvd::bench::Mode;
using hvd::bench::Shape;
using hvd::coll::DataType;

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
        Collective collective;
        int ranks;
        double algorithm;
        double bus;
    };
    const auto& example = GENERATE(values<Example>({
        {Collective::allreduce, 4, 2, 3},  // bytes / time; 2 (n - 1) / n of it
        {Collective::allgather, 4, 8, 6},  // bytes of all / time; (n - 1) / n of it
        {Collective::reducescatter, 4, 2, 1.5},
        {Collective::alltoall, 4, 2, 1.5},
        {Collective::broadcast, 4, 2, 2},  // bytes / time, the same on the bus
        {Collective::allreduce, 1, 2, 0},  // nothing crosses a bus
        {Collective::barrier, 4, 0, 0},
    }));
    CAPTURE(to_string(example.collective), example.ranks);

    const auto found = hvd::bench::bandwidth_of(
        {.collective = example.collective},
        {.mode = Mode::loop, .bytes = 2'000'000, .time_us = 1000}, example.ranks);

    CHECK(found.algorithm == Approx(example.algorithm));
    CHECK(found.bus == Approx(example.bus));
}

TEST_CASE("a row of the CSV file has the columns of its header") {
    CHECK(std::string(hvd::bench::kCsvHeader) ==
          "collective,dtype,op,bytes,ranks,mode,time_us,algbw,busbw,errors\n");

    const Line line{.mode = Mode::touch, .bytes = 4000, .time_us = 2.5, .errors = 3};
    CHECK(hvd::bench::csv_line({.type = DataType::f16}, line, 2) ==
          "allreduce,float16,sum,4000,2,touch,2.500,1.6000,1.6000,3\n");
    CHECK(hvd::bench::csv_line({.collective = Collective::broadcast}, line, 2) ==
          "broadcast,float32,-,4000,2,touch,2.500,1.6000,1.6000,3\n");
}

TEST_CASE("the JSON text has the lines under names") {
    const std::vector<Line> lines{
        {.mode = Mode::loop, .bytes = 4, .time_us = 1, .errors = 0},
        {.mode = Mode::touch, .bytes = 4000, .time_us = 2.5, .errors = 3}};

    CHECK(hvd::bench::json_text({.collective = Collective::alltoall}, lines, 2) ==
          "{\"collective\": \"alltoall\", \"dtype\": \"float32\", \"op\": \"-\", \"ranks\": 2, "
          "\"version\": \"" +
              std::string(hvd_version()) +
              "\",\n \"lines\": [\n"
              "  {\"bytes\": 4, \"mode\": \"loop\", \"time_us\": 1.000, \"algbw\": 0.0040, "
              "\"busbw\": 0.0020, \"errors\": 0},\n"
              "  {\"bytes\": 4000, \"mode\": \"touch\", \"time_us\": 2.500, \"algbw\": 1.6000, "
              "\"busbw\": 0.8000, \"errors\": 3}\n ]}\n");
}

TEST_CASE("without a check no line says that there were no errors") {
    const Line line{.mode = Mode::loop, .bytes = 4, .time_us = 1};
    const hvd::bench::Options options{.checks = false};
    CHECK_THAT(hvd::bench::table_line(options, line, 2), Catch::EndsWith("     -\n"));
    CHECK_THAT(hvd::bench::csv_line(options, line, 2), Catch::EndsWith("0.0040,\n"));
    CHECK_THAT(hvd::bench::json_text(options, {&line, 1}, 2),
               Catch::Contains("\"errors\": null}\n"));
}

TEST_CASE("sizes grow by the factor or by the step, as whole elements and equal shares") {
    using Sizes = std::vector<std::size_t>;
    hvd::bench::Options options{.min_bytes = 4, .max_bytes = 64};
    CHECK(sizes_of(options, 3) == Sizes{4, 16, 64});

    options.step_bytes = 30;
    CHECK(sizes_of(options, 3) == Sizes{4, 32, 64});

    options = {.collective = Collective::alltoall, .min_bytes = 4, .max_bytes = 64};
    CHECK(sizes_of(options, 3) == Sizes{12, 60});  // 4 bytes are not enough for three ranks

    options = {.min_bytes = 0, .max_bytes = 5};
    CHECK(sizes_of(options, 1) == Sizes{4});
    options.collective = Collective::barrier;
    CHECK(sizes_of(options, 1) == Sizes{0});
}

TEST_CASE("a wrong element is found in every type and collective") {
    const auto collective =
        GENERATE(Collective::allreduce, Collective::allgather, Collective::broadcast,
                 Collective::reducescatter, Collective::alltoall);
    const auto type = GENERATE(DataType::boolean, DataType::u8, DataType::i16, DataType::i64,
                               DataType::f16, DataType::bf16, DataType::f32, DataType::f64);
    CAPTURE(to_string(collective), hvd::coll::to_string(type));
    constexpr std::uint64_t kRound = 4;
    const bool is_reduced = hvd::bench::reduces(collective);
    // A world of one reduces to its own input; the others have that of the root, or of both.
    const Shape shape{
        .collective = collective, .type = type, .size = is_reduced ? 1 : 2, .count = 200};
    auto output = input_of(shape, 0, kRound);
    const auto second = input_of(shape, 1, kRound);
    const auto half = static_cast<std::ptrdiff_t>(output.size() / 2);
    if (collective == Collective::allgather) {
        output.insert(output.end(), second.begin(), second.end());
    } else if (collective == Collective::alltoall) {  // rank 0 has the first half of both
        std::copy_n(second.begin(), half, output.begin() + half);
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

TEST_CASE("of a reducescatter each rank has its share of the reduced elements") {
    const Shape whole{.type = DataType::i32, .size = 2, .count = 100};
    const auto first = input_of(whole, 0, 0);
    Shape shape = whole;
    shape.collective = Collective::reducescatter;
    shape.reduce = ReduceOp::adasum;  // of equal inputs: the input
    shape.rank = 1;
    const std::size_t half = first.size() / 2;

    CHECK(hvd::bench::count_errors(shape, 0, std::span(first).last(half)) == 0);
    CHECK(hvd::bench::count_errors(shape, 0, std::span(first).first(half)) > 0);
}

TEST_CASE("flags of the benchmark that it does not know are refused") {
    CHECK(refusal({}) == "");
    CHECK(refusal({"-b", "1k", "-e", "1M", "-d", "bfloat16", "-o", "max", "-f", "2"}) == "");
    CHECK(refusal({"--minbytes", "1K", "--maxbytes=2G", "--stepbytes", "1M", "-n20", "-w", "0"}) ==
          "");
    CHECK(refusal({"-o", "avg", "-d", "half", "-r", "1", "-c", "0", "-J", "x.json"}) == "");
    const std::vector<std::pair<std::vector<const char*>, std::string>> examples{
        {{"--collective", "gather"},
         "--collective 'gather': expected allreduce, allgather, broadcast, alltoall, "
         "reducescatter, barrier"},
        {{"--op", "mean"}, "--op 'mean': expected sum, product, prod, min, max, average, avg"},
        {{"--collective", "reducescatter", "-o", "adasum"}, "--op 'adasum': expected"},
        {{"-d", "complex"}, "--datatype 'complex': expected bool"},
        {{"-b", "2M", "-e", "1M"}, "--maxbytes '1M': expected at least --minbytes, 2097152"},
        {{"-b", "-4"}, "--minbytes '-4': expected bytes such as 4, 64K, 1M"},
        {{"-b", ""}, "--minbytes '': expected a value"},
        {{"-b", "K"}, "--minbytes 'K': expected bytes"},
        {{"-e", "4KB"}, "--maxbytes '4KB': expected bytes"},
        {{"-e", "18446744073709551615G"}, "--maxbytes"},
        {{"-i", "4", "-f", "2"}, "--stepbytes '4': expected at least 1, and no --stepfactor"},
        {{"-i", "0"}, "--stepbytes '0'"},
        {{"--mode", "both"}, "--mode 'both': expected loop, touch"},
        {{"--iters", "0"}, "--iters '0': expected a number from 1"},
        {{"-f", "1"}, "--stepfactor '1': expected a number from 2"},
        {{"-w", "-1"}, "--warmup_iters '-1': expected a number from 0"},
        {{"-n", "many"}, "--iters 'many': expected a number from 1"},
        {{"-c", "2"}, "--check '2': expected 0 or 1"},
        {{"--root", "-1"}, "--root '-1': expected a number from 0"},
        {{"--coll", "barrier"}, "--coll"},  // no abbreviations
        {{"--min", "4"}, "--min"},
        {{"--csv"}, "--csv"},
        {{"4M"}, "'4M' is no flag; see hvd-bench --help"},
    };
    for (const auto& [flags, expected] : examples) {
        CAPTURE(flags);
        CHECK_THAT(refusal(flags), Catch::Contains(expected));
    }
}
