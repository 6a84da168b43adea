// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/batches.hpp"

#include "runtime/fusion/planner.hpp"

#include <utility>

namespace hvd::rt {
namespace {

FusionItem item_of(const Operation& operation) {
    const auto& signature = operation.signature;
    return {.bytes = wire_byte_count(signature),
            .kind = {.op = signature.op,
                     .reduce = signature.reduce,
                     .type = signature.type,
                     .wire = signature.wire,
                     .devices = operation.devices,
                     .prescale = signature.prescale,
                     .postscale = signature.postscale,
                     .root = signature.root,
                     .divisor = operation.divisor}};
}

}  // namespace

std::vector<Batch> fuse(std::span<Operation* const> leaders, std::size_t bytes) {
    FusionPlanner planner(bytes);
    std::vector<Batch> batches;
    for (Operation* leader : leaders) {
        leader->unfinished = 0;
        for_each_member(*leader, [&](Operation& member) {
            ++leader->unfinished;
            const auto group = planner.place(item_of(member));
            if (group == batches.size()) {
                batches.emplace_back();
            }
            batches[group].push_back(&member);
        });
    }
    return batches;
}

void complete_member(TicketTable& tickets, Operation& operation) {
    Operation& leader = *operation.leader;
    if (--leader.unfinished != 0) {
        return;
    }
    // A group fails as a whole.
    const Operation* failed = nullptr;
    for_each_member(std::as_const(leader),
                    [&](const Operation& member) { failed = member.failed ? &member : failed; });
    if (failed != nullptr) {
        const Error cause = failed->error;
        for_each_member(leader, [&](Operation& member) {
            member.failed = true;
            member.error = cause;
        });
    }
    for_each_member(leader, [&](Operation& member) { tickets.complete(member); });
}

void fail_batch(TicketTable& tickets, const Batch& batch, const Error& cause) {
    for (Operation* operation : batch) {
        operation->failed = true;
        operation->error = not_finished(cause, *operation->leader);
        complete_member(tickets, *operation);
    }
}

}  // namespace hvd::rt
