// SPDX-License-Identifier: Apache-2.0
//
// One submitted operation: what the caller wants, and the way back to the caller.
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/device_tensors.hpp"
#include "collectives/staging.hpp"
#include "runtime/tensor/device_lists.hpp"
#include "runtime/tensor/process_set_table.hpp"
#include "runtime/tensor/signature.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::rt {

/// The number by which ranks call a tensor group once they have agreed about it.
using CacheId = std::uint32_t;
inline constexpr CacheId kNoId = 0xffffffff;

/// One operation as a caller hands it in. Thread: caller.
struct Request {
    // NOLINTNEXTLINE(modernize-use-equals-default): that would fill each new one with zeros first
    Request() {}

    std::string name;
    Signature signature;
    int process_set = 0;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    bool has_out = false;        // false: the library allocates the output
    std::int64_t out_rows = -1;  // reducescatter: the first dimension of `out`, where there is one
    std::uint64_t group = 0;     // not 0: members of one call with this number complete as a unit
    std::optional<coll::DevicePlace> device{};  // where `in` and `out` are, if not on the host
};

/// A name of a process set that is in use, or that ranks have agreed about: there is one object for
/// each.
struct Name {
    int process_set = 0;
    std::string text;
    std::atomic<bool> is_pending{false};  // Thread: any; an operation of this name is under way
    std::atomic<bool> is_cached{false};   // Thread: progress lock writes; the text has a cache id
    std::size_t users = 0;                // guarded by TicketTable's mutex
    Name* after = nullptr;                // guarded by the same: see NameTable::intern
    CacheId cache_id = kNoId;             // Thread: progress lock
};

/// Frees memory of Operation::owned.
struct AlignedFree {
    void operator()(std::byte* memory) const noexcept;
};
using OwnedBytes = std::unique_ptr<std::byte, AlignedFree>;

/// 64-byte aligned; nullptr for 0 bytes. Throws std::bad_alloc.
[[nodiscard]] OwnedBytes allocate_aligned(std::size_t bytes);

/// The device's side of an operation whose other fields name memory of the host.
struct Staged {
    coll::DevicePlace place;
    std::byte* in = nullptr;  // only read
    std::byte* out = nullptr;
    coll::Staging::Bytes host_in{};
    coll::Staging::Bytes host_out{};
    coll::Staging::Bytes owned{};  // the output on the device, where the library allocated it
    bool is_returning = false;     // its result is on the way to the device. Thread: progress lock
    std::optional<Error> failure{};  // why the input did not come to the host
};

/// The device's side of an operation whose tensors stay there.
struct OnDevice {
    coll::DeviceTensors* devices = nullptr;
    coll::DevicePlace place;
    coll::SharedEvent ready{};  // after which the input is there. Until the task has started
    coll::DeviceBytes owned{};  // the output, where the library allocated it
};

/// Gets the error of the operation, or nullptr. Its own error is that of the callback.
using Callback = std::function<Status(const Error*)>;

/// The operation of a ticket. It belongs to its caller until it is submitted, then to the holder of
/// the progress lock, and after `done` to the caller again.
struct Operation {
    // Written before the operation is submitted.
    Name* name = nullptr;
    Name* group = nullptr;           // what ranks agree on: `name`, or the joined names of a group
    Operation* leader = nullptr;     // the first member of its tensor group
    Operation* next = nullptr;       // the next member
    ProcessSetEntry* set = nullptr;  // while it is pending
    int process_set = 0;
    bool allocates = false;      // the library provides `out`
    std::int64_t out_rows = -1;  // see Request
    bool is_neutral = false;     // takes part for a rank that has joined; nobody holds its ticket
    Signature signature;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::unique_ptr<Staged> staged;       // of a device's tensor that travels through the host
    std::unique_ptr<OnDevice> on_device;  // of one that does not

    // Thread: progress lock, until `done`.
    std::uint32_t unfinished = 0;  // of the leader: members that have not been executed
    std::chrono::steady_clock::time_point since{};  // of the leader: when it began to wait
    bool is_timed = false;                          // of the leader: `since` is exact
    int last_rank = -1;                             // for which it has waited; -1: not known
    std::uint64_t agreement = 0;                    // of the leader: the number of the one that
                                                    // it is ready for
    std::vector<std::int64_t> first_dims;           // see Decision
    int divisor = 0;                                // of an average; 0: the size of the set
    const DeviceList* devices = nullptr;            // of all members, as agreed; nullptr: hosts
    Error error;                                    // valid if one of the next two
    bool failed = false;
    bool callback_failed = false;  // written before `done`, on whichever thread called it
    OwnedBytes owned;              // the output, where the library allocated it
    Shape result_shape;            // where the signature has another: see shape_of_result
    std::vector<std::int64_t> received_splits;  // of an alltoall
    coll::SharedEvent event;                    // of the device, which completes with the result

    // Thread: any.
    mutable std::atomic<std::uint32_t> state{0};  // see TicketTable; mutable: waiting changes it
    std::atomic<std::uint32_t> generation{1};     // tells this use of the memory from the last one
    Callback callback;                            // written once, before the state says so
    std::uint32_t index = 0;
};

/// The shape of the result of an operation that ranks have agreed on.
[[nodiscard]] const Shape& shape_of_result(const Operation& operation) noexcept;

/// Calls `function` with each member of a tensor group, from its leader on.
template <class Function>
void for_each_member(Operation& leader, Function function) {
    for (Operation* member = &leader; member != nullptr;) {
        Operation* next = member->next;  // read first: `function` may give the member back
        function(*member);
        member = next;
    }
}
template <class Function>
void for_each_member(const Operation& leader, Function function) {
    for (const Operation* member = &leader; member != nullptr; member = member->next) {
        function(*member);
    }
}

/// The cause for which an operation fails, with the operation's name. A tensor group fails as its
/// leader does.
[[nodiscard]] Error not_finished(const Error& cause, const Operation& operation);

}  // namespace hvd::rt
