// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/convert.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::rt::read_process_set;
using hvd::rt::read_process_sets;
using hvd::rt::read_requests;

namespace {

hvd_request barrier(const char* name) {
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = name;
    request.op = HVD_BARRIER;
    return request;
}

hvd_process_set set_of(const std::vector<std::int32_t>& ranks) {
    hvd_process_set set{};
    set.struct_size = sizeof set;
    set.ranks = ranks.data();
    set.count = ranks.size();
    return set;
}

}  // namespace

TEST_CASE("the elements of an array have the size that the first one says") {
    struct Larger {
        hvd_request known;
        std::array<std::uint64_t, 3> unknown;
    };
    std::array<Larger, 3> requests{};
    const std::array names{"a", "b", "c"};
    for (std::size_t index = 0; index < requests.size(); ++index) {
        requests[index].known = barrier(names[index]);
        requests[index].known.struct_size = sizeof(Larger);
    }

    const auto read = read_requests(&requests[0].known, requests.size(), 2);

    REQUIRE(read);
    REQUIRE(read->size() == 3);
    CHECK(read->at(2).name == "c");

    requests[1].unknown[2] = 1;
    const auto refused = read_requests(&requests[0].known, requests.size(), 2);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::unsupported);
}

TEST_CASE("an array whose first struct_size is garbage is refused before its second element") {
    const std::size_t size = GENERATE(
        values({std::size_t{0}, std::size_t{1} << 40, std::numeric_limits<std::size_t>::max()}));
    auto request = barrier("a");
    request.struct_size = size;

    const auto read = read_requests(&request, 2, 2);

    REQUIRE(!read);
    CHECK(read.error().code == Errc::invalid_argument);
}

TEST_CASE("a count beyond every limit is refused, whatever the requests are") {
    const std::size_t count =
        GENERATE(values({std::size_t{100'000'000}, std::numeric_limits<std::size_t>::max()}));
    auto request = barrier("a");

    const auto read = read_requests(&request, count, 2);

    REQUIRE(!read);
    CHECK(read.error().message.find(std::to_string(count)) != std::string::npos);
}

TEST_CASE("a tensor has at most 255 dimensions") {
    const std::vector<std::int64_t> shape(256, 1);
    float value = 0;
    hvd_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = &value;
    tensor.shape = shape.data();
    tensor.dtype = HVD_FLOAT32;
    auto request = barrier("a");
    request.op = HVD_ALLREDUCE;
    request.in = &tensor;
    request.prescale = 1;
    request.postscale = 1;

    tensor.ndim = 255;
    CHECK(read_requests(&request, 1, 2));
    for (const std::int32_t ndim : {256, INT_MAX, -1, INT_MIN}) {
        CAPTURE(ndim);
        tensor.ndim = ndim;
        const auto read = read_requests(&request, 1, 2);
        REQUIRE(!read);
        CHECK(read.error().code == Errc::invalid_argument);
    }
}

TEST_CASE("the type that travels is a half, or 0 for the tensor's own") {
    const float value = 1;
    hvd_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = const_cast<float*>(&value);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    tensor.dtype = HVD_FLOAT32;
    auto request = barrier("a");
    request.op = HVD_ALLREDUCE;
    request.reduce_op = HVD_SUM;
    request.in = &tensor;
    const auto wire_of = [&](std::int32_t dtype) {
        request.wire_dtype = dtype;
        return read_requests(&request, 1, 2)->front().signature.wire;
    };

    CHECK(wire_of(0) == hvd::coll::Wire::own);
    CHECK(wire_of(HVD_FLOAT16) == hvd::coll::Wire::f16);
    CHECK(wire_of(HVD_BFLOAT16) == hvd::coll::Wire::bf16);
    request.wire_dtype = GENERATE(-1, 8, 11, 13, INT_MIN, INT_MAX);
    const auto refused = read_requests(&request, 1, 2);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::invalid_argument);
    CHECK(refused.error().message ==
          "tensor 'a': wire_dtype " + std::to_string(request.wire_dtype) +
              " is neither HVD_FLOAT16 nor HVD_BFLOAT16, nor 0 for the tensor's own");
}

TEST_CASE("more splits than there are ranks are refused unread, and of alltoall alone") {
    const std::int64_t rows = 3;
    std::array<float, 3> values{};
    hvd_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = values.data();
    tensor.shape = &rows;
    tensor.ndim = 1;
    tensor.dtype = HVD_FLOAT32;
    auto request = barrier("a");
    request.op = HVD_ALLTOALL;
    request.in = &tensor;
    request.splits = &rows;
    request.split_count = 1;

    REQUIRE(read_requests(&request, 1, 1));
    for (const std::size_t count : {std::size_t{2}, std::numeric_limits<std::size_t>::max()}) {
        request.split_count = count;
        CHECK_FALSE(read_requests(&request, 1, 1));
    }
    request.split_count = 1;
    request.op = HVD_ALLGATHER;
    CHECK_FALSE(read_requests(&request, 1, 1));
}

TEST_CASE("the members of a process set are read in ascending order") {
    const std::vector<std::int32_t> ranks{5, 0, 3};
    const auto set = set_of(ranks);

    const auto read = read_process_set(&set);

    REQUIRE(read);
    CHECK(*read == std::vector{0, 3, 5});
}

TEST_CASE("a process set of no ranks, of a negative one or of one twice is refused") {
    const auto ranks = GENERATE(values<std::vector<std::int32_t>>({{}, {0, -1}, {2, 1, 2}}));
    const auto set = set_of(ranks);

    const auto read = read_process_set(&set);

    REQUIRE(!read);
    CHECK(read.error().code == Errc::invalid_argument);
}

TEST_CASE("process sets are an array like requests") {
    const std::vector<std::int32_t> first{0};
    const std::vector<std::int32_t> second{1, 2};
    const std::array sets{set_of(first), set_of(second)};

    const auto read = read_process_sets(sets.data(), sets.size());

    REQUIRE(read);
    REQUIRE(read->size() == 2);
    CHECK(read->at(1) == std::vector{1, 2});
    CHECK(!read_process_sets(nullptr, 1));
    CHECK(read_process_sets(nullptr, 0));
}
