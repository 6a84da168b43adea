// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/admission.hpp"

#include "runtime/negotiation/readiness.hpp"

#include <string>
#include <utility>

namespace hvd::rt {
namespace {

Error outsider_error(const coll::ProcessSet& set, const coll::ProcessSet& world) {
    return {Errc::invalid_argument,
            "rank " + std::to_string(world.rank_at(world.place)) +
                " is not a member of process set " + std::to_string(set.id) +
                (set.size() == 1 ? ", whose member is " : ", whose members are ") +
                describe_ranks(set.ranks)};
}

/// Errors: invalid_argument where a reducescatter's output is not this rank's share.
Status check_output(const Operation& operation, const coll::ProcessSet& set) {
    if (operation.out_rows < 0) {
        return ok();
    }
    const auto share = share_of_rows(operation.signature.shape.front(), set.place, set.size());
    if (operation.out_rows == share) {
        return ok();
    }
    return Error{Errc::invalid_argument, "the output has " + std::to_string(operation.out_rows) +
                                             " rows, but the share of this rank is " +
                                             std::to_string(share)};
}

/// Undoes what admitting operations did.
void dismiss(std::span<Operation* const> operations) {
    for (Operation* operation : operations) {
        if (auto* const set = std::exchange(operation->set, nullptr)) {
            ProcessSetTable::release(*set);
        }
    }
}

}  // namespace

/// Finds the operation's process set, and what is missing of its signature.
Status Admission::admit(Operation& operation) const {
    HVD_TRY(auto* const entry, setup_.sets.acquire(operation.process_set));
    operation.set = entry;
    auto& signature = operation.signature;
    if (setup_.averages_over_contributing && signature.kind == Kind::collective &&
        signature.op == coll::Op::allreduce && signature.reduce == coll::ReduceOp::average) {
        signature.over_contributing = true;
    }
    const auto& set = entry->set;
    if (!set.is_member()) {
        return outsider_error(set, setup_.sets.world().set);
    }
    HVD_TRY_STATUS(complete_signature(signature, set));
    return check_output(operation, set);
}

/// All or none.
Status Admission::admit_all(std::span<Operation* const> operations) const {
    for (std::size_t index = 0; index < operations.size(); ++index) {
        auto& operation = *operations[index];
        if (auto admitted = admit(operation); !admitted) {
            dismiss(operations.first(index + 1));
            return std::move(admitted).error().context("tensor '" + operation.name->text + "'");
        }
    }
    return ok();
}

Status Admission::check(std::span<Operation* const> operations) const {
    HVD_TRY_STATUS(admit_all(operations));
    dismiss(operations);
    return ok();
}

Status Admission::claim(std::span<Operation* const> operations) {
    for (Operation* operation : operations) {
        auto& reduce = operation->signature.reduce;
        if (setup_.adasum_across_hosts && reduce == coll::ReduceOp::adasum) {
            reduce = coll::ReduceOp::adasum_across_hosts;
        }
    }
    HVD_TRY_STATUS(setup_.devices.prepare(operations));
    HVD_TRY_STATUS(setup_.copies.prepare(operations));
    HVD_TRY_STATUS(admit_all(operations));
    if (auto claimed = TicketTable::claim(operations); !claimed) {
        dismiss(operations);
        return claimed;
    }
    submitted_.fetch_add(operations.size(), std::memory_order_relaxed);
    return ok();
}

Result<std::vector<Operation*>> Admission::create(std::span<Request> requests) {
    HVD_TRY(auto operations, setup_.tickets.create(requests));
    if (auto claimed = claim(operations); !claimed) {
        (void)setup_.tickets.discard(operations);  // nothing of it is pending
        return std::move(claimed).error();
    }
    return operations;
}

}  // namespace hvd::rt
