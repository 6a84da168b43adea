// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/executor.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace hvd::rt {
namespace {

FusionItem item_of(const Operation& operation) {
    const auto& signature = operation.signature;
    return {.bytes = byte_count(signature),
            .kind = {.op = signature.op,
                     .reduce = signature.reduce,
                     .type = signature.type,
                     .device = signature.device,
                     .prescale = signature.prescale,
                     .postscale = signature.postscale,
                     .root = signature.root}};
}

/// What must be known before the operation can run: the result's shape, and its memory.
void prepare(Operation& operation) {
    const auto& signature = operation.signature;
    operation.result_shape = signature.shape;
    std::size_t bytes = byte_count(signature);
    if (signature.op == coll::Op::allgather) {
        const auto all =
            std::accumulate(operation.rows.begin(), operation.rows.end(), std::int64_t{0});
        operation.result_shape.front() = all;
        bytes = element_count(operation.result_shape) * coll::size_of(signature.type);
    }
    if (operation.allocates) {
        operation.owned = allocate_aligned(bytes);
        operation.out = operation.owned.get();
    }
}

}  // namespace

Executor::Executor(Setup setup, TicketTable& tickets)
    : setup_(std::move(setup)), communicators_(setup_.backends.size()), tickets_(tickets) {}

void Executor::enqueue(std::span<Operation* const> heads, std::optional<std::size_t> fusion_bytes) {
    // The common case, and the one where a few hundred nanoseconds count.
    if (heads.size() == 1 && heads.front()->next == nullptr) {
        heads.front()->left = 1;
        if (!busy()) {
            group_.push_back(heads.front());
        } else {
            queue_.push_back({heads.front()});
        }
        return;
    }
    std::vector<Operation*> members;
    std::vector<FusionItem> items;
    for (Operation* head : heads) {
        head->left = 0;
        for (Operation* member = head; member != nullptr; member = member->next) {
            ++head->left;
            members.push_back(member);
            items.push_back(item_of(*member));
        }
    }
    for (const auto& indices : plan_fusion(items, fusion_bytes.value_or(usual_fusion_bytes()))) {
        Group group;
        group.reserve(indices.size());
        for (const auto index : indices) {
            group.push_back(members[index]);
        }
        queue_.push_back(std::move(group));
    }
}

bool Executor::step() {
    bool moved = false;
    // Several small ones in a row: the caller's loop has other things to look at now and then.
    for (int round = 0; round < 16; ++round) {
        if (!running_) {
            if (group_.empty() && queue_.empty()) {
                return moved;
            }
            if (group_.empty()) {
                group_ = std::move(queue_.front());
                queue_.pop_front();
            }
            start();
            moved = true;
            if (!running_) {
                continue;
            }
        }
        const auto progress = running_->poll();
        if (!progress) {
            broken_ = broken_.value_or(progress.error());
            running_.reset();
            fail(group_, *broken_);
            return true;
        }
        if (*progress == coll::Work::Progress::pending) {
            return moved;
        }
        finish();
        moved = true;
    }
    return moved;
}

void Executor::abort(const Error& cause) {
    broken_ = broken_.value_or(cause);
    for (const auto& communicator : communicators_) {
        if (communicator) {
            communicator->abort(cause);
        }
    }
    if (running_) {
        // An aborted Work ends at its next poll, when no peer can touch the buffers any more.
        (void)running_->poll();
        running_.reset();
    }
    fail(group_, cause);
    for (auto& group : std::exchange(queue_, {})) {
        fail(group, cause);
    }
}

std::size_t Executor::usual_fusion_bytes() const {
    return setup_.backends.front()->fusion_bytes();
}

void Executor::fill_task() {
    const auto& first = group_.front()->signature;
    task_.op = first.op;
    task_.reduce = first.reduce;
    task_.type = first.type;
    task_.device = {.kind = first.device, .index = 0};
    task_.prescale = first.prescale;
    task_.postscale = first.postscale;
    task_.root = first.root;
    task_.segments.clear();
    if (first.op == coll::Op::barrier) {
        return;
    }
    for (const Operation* operation : group_) {
        coll::Segment segment{.in = operation->in,
                              .out = operation->out,
                              .count = element_count(operation->signature.shape),
                              .counts = {}};
        if (first.op == coll::Op::allgather) {
            const auto row = element_count(std::span(operation->signature.shape).subspan(1));
            segment.counts.reserve(operation->rows.size());
            for (const auto rows : operation->rows) {
                segment.counts.push_back(static_cast<std::size_t>(rows) * row);
            }
        }
        task_.segments.push_back(std::move(segment));
    }
}

void Executor::start() {
    if (broken_) {
        fail(group_, *broken_);
        return;
    }
    for (Operation* operation : group_) {
        prepare(*operation);
    }
    fill_task();
    coll::Backend* const backend = setup_.select(setup_.backends, task_, setup_.world);
    if (backend == nullptr) {
        broken_ = Error{Errc::unsupported, "no backend can run this collective"};
        fail(group_, *broken_);
        return;
    }
    auto& communicator = communicator_of(*backend);
    totals_.collectives += 1;
    totals_.bytes += coll::input_bytes(task_);
    workspace_ = {};
    if (task_.segments.size() > 1 && !communicator.gathers(task_)) {
        const auto bytes = coll::input_bytes(task_);
        workspace_ = communicator.workspace(bytes);
        if (workspace_.size() < bytes) {
            broken_ = Error{Errc::internal, "a backend has no workspace for a fused message"};
            fail(group_, *broken_);
            return;
        }
        pack();
    }
    auto work = communicator.start(task_);
    if (!work) {
        broken_ = work.error();
        fail(group_, *broken_);
        return;
    }
    running_ = std::move(work).value();
}

coll::Communicator& Executor::communicator_of(coll::Backend& backend) {
    const auto at = std::ranges::find(setup_.backends, &backend,
                                      [](const auto& candidate) { return candidate.get(); });
    auto& communicator = communicators_[static_cast<std::size_t>(at - setup_.backends.begin())];
    if (!communicator) {
        communicator = backend.open(setup_.world);
    }
    return *communicator;
}

void Executor::pack() {
    std::byte* to = workspace_.data();
    std::size_t count = 0;
    for (const auto& segment : task_.segments) {
        const auto bytes = segment.count * coll::size_of(task_.type);
        if (bytes != 0 && (task_.op != coll::Op::broadcast || task_.root == setup_.world.place)) {
            std::memcpy(to, segment.in, bytes);
        }
        to += bytes;
        count += segment.count;
    }
    task_.segments.clear();
    task_.segments.push_back(
        {.in = workspace_.data(), .out = workspace_.data(), .count = count, .counts = {}});
}

void Executor::unpack() {
    const std::byte* from = workspace_.data();
    for (const Operation* operation : group_) {
        const auto bytes = byte_count(operation->signature);
        if (bytes != 0) {
            std::memcpy(operation->out, from, bytes);
        }
        from += bytes;
    }
}

void Executor::finish() {
    running_.reset();
    if (!workspace_.empty()) {
        unpack();
    }
    for (Operation* operation : group_) {
        complete_member(*operation);
    }
    group_.clear();
}

void Executor::fail(Group& group, const Error& error) {
    for (Operation* operation : group) {
        operation->failed = true;
        operation->error = error;
        complete_member(*operation);
    }
    group.clear();
}

void Executor::complete_member(Operation& operation) {
    // The members of a unit end together, when the last of them has been run.
    Operation& head = *operation.head;
    if (--head.left != 0) {
        return;
    }
    for (Operation* member = &head; member != nullptr;) {
        Operation* next = member->next;  // read first: the caller may release the member at once
        tickets_.complete(*member);
        member = next;
    }
}

}  // namespace hvd::rt
