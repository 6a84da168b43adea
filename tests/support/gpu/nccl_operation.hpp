// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a group of calls, in steps, over the memory that the ranks share.
#pragma once

#include "tests/support/gpu/control.hpp"
#include "tests/support/gpu/nccl_reduce.hpp"
#include "tests/support/gpu/nccl_segment.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvd::test::gpu {

enum class Call : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast,
    reduce,
    send,
    recv,
};

/// One call of NCCL.
struct NcclOperation {
    Call call = Call::all_reduce;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::size_t count = 0;  // as the call has it
    Reduction reduction{};
    int peer = 0;                   // root, or the other rank
    std::size_t in_registered = 0;  // where in registered memory, from 1 on; 0: in none
    std::size_t out_registered = 0;
};

/// A rank's place in the shared memory.
struct Place {
    Segment& segment;
    int rank;
    int ranks;
    std::uint64_t& rounds;  // of collectives that it has run
};

/// Runs a group: its collectives one after the other, then its messages at the same time.
///
/// Thread: the one that runs the streams.
class GroupRun {
public:
    GroupRun(Place place, std::vector<NcclOperation> operations)
        : place_(place), operations_(std::move(operations)), states_(operations_.size()) {}

    /// True once all are over. `what_is_wrong` gets a sentence where ranks do not fit together:
    /// then it never ends.
    [[nodiscard]] bool step(const Touch& touch, std::string& what_is_wrong);

private:
    struct State {
        bool is_touched = false;
        bool is_over = false;
        bool is_written = false;  // of a collective: the round's input
        std::size_t round = 0;    // of a collective
        std::size_t moved = 0;    // of a message, bytes
        bool is_begun = false;    // of a message
    };

    [[nodiscard]] std::size_t input_elements(const NcclOperation& operation) const;
    [[nodiscard]] std::uint64_t signature_of(const NcclOperation& operation) const;
    [[nodiscard]] bool collective(std::size_t index, std::string& what_is_wrong);
    void take_results(const NcclOperation& operation, std::size_t first, std::size_t count) const;
    void messages(std::string& what_is_wrong);
    [[nodiscard]] bool send(std::size_t index);
    [[nodiscard]] bool receive(std::size_t index, std::string& what_is_wrong);
    void touch_all(const NcclOperation& operation, const Touch& touch) const;

    Place place_;
    std::vector<NcclOperation> operations_;
    std::vector<State> states_;
    bool is_wrong_ = false;
};

}  // namespace hvd::test::gpu
