// SPDX-License-Identifier: Apache-2.0
//
// Ranks that disagree get errors, and their world goes on.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <barrier>
#include <span>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::Request;
using hvd::test::allreduce;
using hvd::test::require;
using hvd::test::run_thread_ranks;
using hvd::test::thread_world;

namespace {

struct Mismatch {
    std::string what;
    void (*change)(Request& request);
    std::string message;
};

}  // namespace

TEST_CASE("ranks that disagree are told the tensor, both values and the ranks on each side") {
    const auto& mismatch = GENERATE(values<Mismatch>({
        {"dtype", [](Request& r) { r.signature.type = DataType::i32; },
         "tensor 'grad': ranks disagree on the dtype: float32 on ranks 0,2, int32 on rank 1"},
        {"shape",
         [](Request& r) {
             r.signature.shape = {2, 2};
         },
         "tensor 'grad': ranks disagree on the shape: [4] on ranks 0,2, [2, 2] on rank 1"},
        {"operation", [](Request& r) { r.signature.op = Op::broadcast; },
         "tensor 'grad': ranks disagree on the operation: allreduce on ranks 0,2, broadcast on "
         "rank 1"},
        {"reduce", [](Request& r) { r.signature.reduce = ReduceOp::max; },
         "tensor 'grad': ranks disagree on the reduce operation: sum on ranks 0,2, max on rank 1"},
        {"wire", [](Request& r) { r.signature.wire = hvd::coll::Wire::f16; },
         "tensor 'grad': ranks disagree on the dtype that travels (wire_dtype): float32 on ranks "
         "0,2, float16 on rank 1"},
        {"scale", [](Request& r) { r.signature.postscale = 0.5; },
         "tensor 'grad': ranks disagree on the postscale factor: 1 on ranks 0,2, 0.5 on rank 1"},
    }));
    CAPTURE(mismatch.what);
    auto world = thread_world(3);

    const auto failed = run_thread_ranks(3, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        std::vector<float> data(4, 1.0F);
        auto request = allreduce("grad", data);
        if (rank == 1) {
            mismatch.change(request);
        }
        const auto error = self.failure_of({request});
        require(error.code == Errc::mismatch, "code");
        require(error.message == mismatch.message, error.message);
        // The world goes on.
        self.run({allreduce("grad", data)});
        require(data.front() == 3, "sum after a mismatch");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("ranks that group tensors in different ways are told, also when they agreed before") {
    const bool is_cached = GENERATE(false, true);
    const bool is_pair = GENERATE(false, true);  // rank 1 has another group, or single tensors
    CAPTURE(is_cached, is_pair);
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        std::vector<float> data(3, 1.0F);
        const auto request = [&](std::size_t index, std::uint64_t group) {
            auto made = allreduce(std::string(1, static_cast<char>('a' + index)),
                                  std::span(data).subspan(index, 1));
            made.group = group;
            return made;
        };
        const std::vector<Request> all{request(0, 1), request(1, 1), request(2, 1)};
        if (is_cached) {
            self.run(all);
        }
        auto changed = all;
        if (rank == 1) {
            changed = {request(0, is_pair ? 1 : 0), request(1, is_pair ? 1 : 0), request(2, 0)};
        }
        const auto error = self.failure_of(changed);
        require(error.code == Errc::mismatch, error.message);
        require(error.message.find("ranks disagree on its group") != std::string::npos,
                error.message);
        std::ranges::fill(data, 1.0F);
        self.run(all);
        require(data[0] == 2 && data[2] == 2, "sums after a mismatch");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("single tensors, one after the other, each fail against a group of other ranks") {
    constexpr int kSize = 3;
    const bool is_cached = GENERATE(false, true);
    CAPTURE(is_cached);
    auto world = thread_world(kSize);
    std::barrier all_are_done(kSize);

    const auto failed = run_thread_ranks(kSize, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        std::vector<float> data(3, 1.0F);
        const auto request = [&](std::size_t index, std::uint64_t group) {
            auto made = allreduce(std::string(1, static_cast<char>('a' + index)),
                                  std::span(data).subspan(index, 1));
            made.group = group;
            return made;
        };
        const std::vector<Request> all{request(0, 1), request(1, 1), request(2, 1)};
        if (is_cached) {
            self.run(all);
        }
        for (std::size_t index = 0; rank != 0 && index < all.size(); ++index) {
            require(self.failure_of({request(index, 0)}).code == Errc::mismatch, "single");
        }
        if (rank == 0) {
            require(self.failure_of(all).code == Errc::mismatch, "group");
        }
        all_are_done.arrive_and_wait();
        std::ranges::fill(data, 1.0F);
        self.run(all);
        require(data[0] == kSize && data[2] == kSize, "sums after a mismatch");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("roots that differ are a mismatch") {
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        std::vector<float> data(4, 1.0F);
        auto request = allreduce("weights", data);
        request.signature.op = Op::broadcast;
        request.signature.root = rank;
        const auto error = world[static_cast<std::size_t>(rank)]->failure_of({request});
        require(error.message ==
                    "tensor 'weights': ranks disagree on the root rank: 0 on rank 0, "
                    "1 on rank 1",
                error.message);
        return 0;
    });

    CHECK(failed == "");
}
