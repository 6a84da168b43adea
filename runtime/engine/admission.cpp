// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/admission.hpp"

#include "runtime/negotiation/readiness.hpp"

#include <string>

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

}  // namespace

Status admit_to_set(Operation& operation,
                    const coll::ProcessSet& set,
                    const coll::ProcessSet& world) {
    if (!set.is_member()) {
        return outsider_error(set, world);
    }
    HVD_TRY_STATUS(complete_signature(operation.signature, set));
    return check_output(operation, set);
}

}  // namespace hvd::rt
