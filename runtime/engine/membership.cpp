// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/membership.hpp"

#include <string>
#include <utility>

namespace hvd::rt {
namespace {

/// An operation of membership that has been run.
struct Ran {
    Result<Outcome> outcome;
    int root = -1;  // what its signature holds at the end
};

Result<Ran> run(Engine& engine, TicketTable& tickets, Request request, Deadline deadline) {
    request.has_out = true;  // nothing to allocate
    std::vector<Operation*> operations;
    auto outcome = engine.run({&request, 1}, operations, deadline);
    if (operations.empty()) {
        return std::move(outcome).error();
    }
    const bool has_ended = !outcome || *outcome == Outcome::finished;
    const int root = has_ended ? operations.front()->signature.root : -1;
    HVD_TRY_STATUS(tickets.release(*operations.front()));  // one that is pending ends by itself
    return Ran{.outcome = std::move(outcome), .root = root};
}

}  // namespace

Result<AddedSet> add_process_set(Engine& engine,
                                 TicketTable& tickets,
                                 const std::vector<int>& ranks,
                                 Deadline deadline) {
    const auto size = engine.process_sets().world().set.size();
    Request request;
    request.name = "process_set.add";
    request.signature.kind = Kind::add_process_set;
    for (const int rank : ranks) {
        if (rank < 0 || rank >= size) {
            return Error{
                Errc::invalid_argument,
                "rank " + std::to_string(rank) + " is not in a world of " + std::to_string(size)};
        }
        request.signature.splits.push_back(rank);
    }
    if (const auto known = engine.process_sets().find_equal(request.signature.splits)) {
        return AddedSet{.id = *known, .is_new = false};
    }
    request.signature.root = -1;
    HVD_TRY(auto ran, run(engine, tickets, std::move(request), deadline));
    if (!ran.outcome && ran.root < 0) {
        return std::move(ran.outcome).error();
    }
    const bool is_new = ran.outcome.has_value();
    return AddedSet{
        .id = ran.root, .is_new = is_new, .outcome = is_new ? *ran.outcome : Outcome::finished};
}

Result<Outcome> remove_process_set(Engine& engine,
                                   TicketTable& tickets,
                                   int id,
                                   Deadline deadline) {
    if (id == 0) {
        return Error{Errc::invalid_argument, "process set 0 is the world, which stays"};
    }
    HVD_TRY_STATUS(engine.process_sets().ranks(id));
    Request request;
    request.name = "process_set.remove";
    request.signature.kind = Kind::remove_process_set;
    request.signature.root = id;
    HVD_TRY(auto ran, run(engine, tickets, std::move(request), deadline));
    return std::move(ran.outcome);
}

}  // namespace hvd::rt
