// SPDX-License-Identifier: Apache-2.0
//
// One submitted operation: what the caller wants, and the way back to the caller.
#pragma once

#include "collectives/base/error.hpp"
#include "runtime/tensor/signature.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::rt {

inline constexpr std::uint32_t kNoId = 0xffffffff;

/// What an average divides by while ranks have joined.
enum class AverageOver { all, contributing };

/// One operation as a caller hands it in. Thread: caller.
struct Request {
    std::string name;
    Signature signature;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    bool has_out = false;              // false: the runtime allocates the output
    std::uint64_t group = 0;           // not 0: members of one call with this number are one unit
    std::vector<std::int64_t> splits;  // alltoall: rows for each rank of the set; empty: equal
    int process_set = 0;
    AverageOver average_over = AverageOver::all;
};

/// A name that is in use, or that ranks have agreed about: there is one object for each text.
struct Name {
    std::string text;
    std::atomic<bool> pending{false};  // Thread: any; an operation of this name is on its way
    std::atomic<bool> cached{false};   // Thread: baton writes; the text has an agreed id
    std::size_t users = 0;             // guarded by TicketTable's mutex
    std::uint32_t agreed_id = kNoId;   // Thread: baton
};

/// Frees memory of Operation::owned.
struct AlignedFree {
    void operator()(std::byte* memory) const noexcept;
};
using OwnedBytes = std::unique_ptr<std::byte, AlignedFree>;

/// 64-byte aligned; nullptr for 0 bytes. Throws std::bad_alloc.
[[nodiscard]] OwnedBytes allocate_aligned(std::size_t bytes);

using Callback = std::function<void(const Error*)>;

/// A Ticket's inside. It belongs to its caller until it is submitted, then to the baton's holder,
/// and after `done` to the caller again.
struct Operation {
    // Written before the operation is submitted.
    Name* name = nullptr;
    Name* unit = nullptr;       // what ranks agree on by: `name`, or the joined names of a group
    Operation* head = nullptr;  // the unit's first member
    Operation* next = nullptr;  // the unit's next member
    bool of_plan = false;       // lives as long as its plan
    bool allocates = false;     // the runtime provides `out`
    Signature signature;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;

    // Thread: baton, until `done`.
    std::uint32_t left = 0;          // of the head: members that have not been executed
    std::vector<std::int64_t> rows;  // allgather: every rank's first dimension
    Error error;                     // valid if `failed`
    bool failed = false;
    OwnedBytes owned;  // the output, where the runtime allocated it
    Shape result_shape;

    // Thread: any.
    mutable std::atomic<std::uint32_t> state{0};  // see TicketTable; mutable: waiting marks it
    std::atomic<std::uint32_t> generation{1};     // tells this use of the memory from the last one
    Callback callback;                            // written once, before the state says so
    std::uint32_t index = 0;
};

}  // namespace hvd::rt
