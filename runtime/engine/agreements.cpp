// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/agreements.hpp"

#include "runtime/engine/carried.hpp"

#include <limits>
#include <new>
#include <numeric>
#include <utility>

namespace hvd::rt {
namespace {

/// Sets the shape of a result that has not the input's, and how many rows come from each member.
void shape_result(Operation& operation, const coll::ProcessSet& set) {
    const auto& signature = operation.signature;
    const auto& dims = operation.first_dims;
    if (keeps_shape(signature)) {
        return;
    }
    operation.result_shape = signature.shape;
    if (signature.op == coll::Op::allgather) {
        operation.result_shape.front() = std::accumulate(dims.begin(), dims.end(), std::int64_t{0});
    } else if (signature.op == coll::Op::alltoall) {
        const auto size = static_cast<std::size_t>(set.size());
        operation.received_splits.clear();
        for (std::size_t from = 0; from < size; ++from) {
            operation.received_splits.push_back(
                dims[from * size + static_cast<std::size_t>(set.place)]);
        }
        operation.result_shape.front() = std::accumulate(
            operation.received_splits.begin(), operation.received_splits.end(), std::int64_t{0});
    } else {
        operation.result_shape.front() =
            share_of_rows(signature.shape.front(), set.place, set.size());
    }
}

/// Nothing where it is more than memory can be.
std::optional<std::size_t> bytes_of(const Shape& shape, std::size_t element_bytes) {
    std::size_t bytes = element_bytes;
    for (const auto extent : shape) {
        const auto count = static_cast<std::size_t>(extent);
        if (count != 0 && bytes > std::numeric_limits<std::size_t>::max() / 2 / count) {
            return std::nullopt;
        }
        bytes *= count;
    }
    return bytes;
}

/// Why there is not as much memory, which fails the operation on all ranks alike: what the device
/// says, or nothing more.
std::optional<std::string> try_allocate(Operation& operation, std::size_t bytes) {
    try {
        if (operation.on_device != nullptr) {
            auto& mine = *operation.on_device;
            mine.owned.reset();
            mine.owned = mine.devices->allocate(mine.place.index, bytes);
            operation.out = mine.owned.get();
        } else {
            operation.owned.reset();
            operation.owned = allocate_aligned(bytes);
            operation.out = operation.owned.get();
        }
        return std::nullopt;
    } catch (const std::bad_alloc&) {
        return std::string();
    } catch (const Exception& exception) {
        return ": " + exception.error().message;
    }
}

bool has_output(const Operation& operation) {
    return operation.on_device != nullptr ? operation.on_device->owned != nullptr
                                          : operation.owned != nullptr;
}

}  // namespace

std::string allocate_outputs(Operation& leader, const coll::ProcessSet& set) {
    for (Operation* member = &leader; member != nullptr; member = member->next) {
        if (!member->allocates || !has_tensor(member->signature)) {
            shape_result(*member, set);
            continue;
        }
        const Shape last_shape = shape_of_result(*member);
        shape_result(*member, set);
        const auto& shape = shape_of_result(*member);
        if (has_output(*member) && shape == last_shape) {
            continue;  // a plan has run before, and its last result may go
        }
        const auto bytes = bytes_of(shape, coll::size_of(member->signature.type));
        if (const auto why = bytes ? try_allocate(*member, *bytes) : std::string()) {
            return "there is no memory for a result of shape " + describe(shape) + " and type " +
                   std::string(to_string(member->signature.type)) + *why;
        }
    }
    return {};
}

bool Agreements::has(const Operation& leader) const {
    const auto id = leader.group->cache_id;
    if (id == kNoId) {
        return false;
    }
    const auto& agreement = table_[id];
    if (is_ready(leader, agreement)) {
        return true;
    }
    std::size_t index = 0;
    for (const Operation* member = &leader; member != nullptr; member = member->next) {
        if (!(member->signature == agreement.tensors[index].signature)) {
            return false;
        }
        ++index;
    }
    return true;
}

Agreement& Agreements::add(const Decision& decision, const Operation& leader) {
    if (decision.id >= table_.size()) {
        table_.resize(decision.id + std::size_t{1});
    }
    Agreement& agreement = table_[decision.id];
    agreement.set = leader.set;
    agreement.group = leader.group;
    agreement.waiting = nullptr;
    agreement.is_transient = decision.is_transient;
    agreement.number = tickets_.next_agreement();
    agreement.carried_bytes = leader.next == nullptr
                                  ? carried_bytes(leader.signature, decision.first_dims.front())
                                  : kNotCarried;
    agreement.tensors.clear();
    std::size_t index = 0;
    for_each_member(leader, [&](const Operation& member) {
        agreement.tensors.push_back({.signature = member.signature,
                                     .first_dims = decision.first_dims[index++],
                                     .devices = member.devices});
    });
    leader.group->cache_id = decision.id;
    leader.group->is_cached.store(true, std::memory_order_relaxed);
    return agreement;
}

Operation* Agreements::drop(CacheId id) {
    const Agreement agreement = std::exchange(table_[id], {});
    agreement.group->cache_id = kNoId;
    tickets_.uncache(*agreement.group);  // an operation that waits still holds the name
    return agreement.waiting;
}

}  // namespace hvd::rt
