// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/staged_copies.hpp"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <utility>

namespace hvd::rt {
namespace {

using coll::Staging;

/// Memory for the input, and for a result that the caller has a place for. They are the same but
/// for a reducescatter, whose result is a part.
void allocate(Staging& staging, Operation& operation) {
    auto& staged = *operation.staged;
    const auto bytes = byte_count(operation.signature);
    if (staged.host_in != nullptr || bytes == 0) {
        return;  // a plan's, which has run before
    }
    staged.host_in = staging.allocate(staged.place.index, Staging::Kind::pinned, bytes);
    operation.in = staged.host_in.get();
    if (operation.allocates) {
        return;
    }
    if (operation.signature.op == coll::Op::reducescatter) {
        staged.host_out = staging.allocate(staged.place.index, Staging::Kind::pinned, bytes);
        operation.out = staged.host_out.get();
    } else {
        operation.out = staged.host_in.get();
    }
}

}  // namespace

Status StagedCopies::prepare(std::span<Operation* const> operations) {
    for (Operation* operation : operations) {
        if (operation->staged == nullptr) {
            continue;
        }
        if (staging_ == nullptr) {
            return Error{Errc::unsupported, "tensor '" + operation->name->text +
                                                "': this build takes tensors in host memory only: "
                                                "copy it to the CPU"};
        }
        try {
            allocate(*staging_, *operation);
        } catch (const Exception& exception) {
            return Error(exception.error()).context("tensor '" + operation->name->text + "'");
        }
    }
    return ok();
}

bool StagedCopies::send(std::span<Operation* const> leaders) {
    std::vector<Operation*> staged;
    for (Operation* leader : leaders) {
        for_each_member(*leader, [&](Operation& member) {
            if (member.staged != nullptr) {
                member.staged->is_returning = false;
                member.staged->failure.reset();
                staged.push_back(&member);
            }
        });
    }
    if (staged.empty()) {
        return false;
    }
    try {
        copy_inputs(staged, leaders);
    } catch (const Exception& exception) {
        drain();  // what was enqueued before the failure reads memory that is given back next
        for (Operation* operation : staged) {
            operation->staged->failure = exception.error();
        }
        inbox_.push(leaders);
    }
    return true;
}

/// The last device that has its copies behind it pushes the leaders.
void StagedCopies::copy_inputs(std::span<Operation* const> staged,
                               std::span<Operation* const> leaders) {
    std::map<int, std::vector<Staging::Copy>> copies;
    for (Operation* operation : staged) {
        const auto& each = *operation->staged;
        staging_->follow(each.place);
        // The device's memory is only read.
        copies[each.place.index].push_back({.on_device = each.in,
                                            .on_host = each.host_in.get(),
                                            .bytes = byte_count(operation->signature)});
    }
    struct Rest {
        std::vector<Operation*> leaders;
        std::atomic<std::size_t> devices = 0;
    };
    const auto rest = std::make_shared<Rest>();
    rest->leaders.assign(leaders.begin(), leaders.end());
    rest->devices.store(copies.size(), std::memory_order_relaxed);
    for (const auto& [device, of_device] : copies) {
        staging_->copy(device, Staging::Direction::to_host, of_device, [this, rest] {
            if (rest->devices.fetch_sub(1, std::memory_order_acq_rel) == 1) {
                inbox_.push(rest->leaders);
            }
        });
    }
}

bool StagedCopies::carry(Operation& operation) {
    try {
        copy_result(operation);
        return true;
    } catch (const Exception& exception) {
        operation.failed = true;
        operation.error = exception.error();
        return false;
    }
}

void StagedCopies::copy_result(Operation& operation) {
    auto& staged = *operation.staged;
    const auto bytes =
        element_count(shape_of_result(operation)) * coll::size_of(operation.signature.type);
    if (operation.allocates) {
        staged.owned = staging_->allocate(staged.place.index, Staging::Kind::device, bytes);
        staged.out = staged.owned.get();
    }
    staged.is_returning = true;
    const std::array copies{
        Staging::Copy{.on_device = staged.out, .on_host = operation.out, .bytes = bytes}};
    staging_->copy(staged.place.index, Staging::Direction::to_device, copies,
                   [this, ended = &operation] {
                       inbox_.push({&ended, 1});
                   });
}

const Error* StagedCopies::failure_of(const Operation& leader) {
    const Error* failure = nullptr;
    for_each_member(leader, [&](const Operation& member) {
        if (member.staged != nullptr && member.staged->failure) {
            failure = &*member.staged->failure;
        }
    });
    return failure;
}

void StagedCopies::drain() noexcept {
    if (staging_ != nullptr) {
        staging_->drain();
    }
}

void StagedCopies::trim() noexcept {
    if (staging_ != nullptr) {
        staging_->trim();
    }
}

}  // namespace hvd::rt
