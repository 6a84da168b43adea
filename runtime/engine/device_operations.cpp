// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/device_operations.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace hvd::rt {
namespace {

constexpr int kLooks = 200;  // before it sleeps between them
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{500};

/// Why a result is nothing though nothing else says so: the world was left meanwhile.
Error lost_result() {
    return {Errc::aborted, "the world ended before the device had the result"};
}

Status check_valid(const coll::DeviceEvent& event, const std::function<Status()>& health) {
    if (event.is_valid()) {
        return ok();
    }
    HVD_TRY_STATUS(health());
    return lost_result();
}

}  // namespace

bool DeviceOperations::can_stay(const Operation& operation) const {
    const auto& signature = operation.signature;
    if (!has_tensor(signature) || signature.reduce == coll::ReduceOp::adasum_across_hosts) {
        return false;
    }
    const bool can_cross =
        signature.op == coll::Op::allreduce && signature.reduce != coll::ReduceOp::adasum;
    if (sets_ == nullptr || can_cross) {
        return true;
    }
    const auto set = sets_->acquire(operation.process_set);
    if (!set) {
        return true;  // its admission fails
    }
    const bool is_on_one_host = (*set)->set.is_on_one_host();
    ProcessSetTable::release(**set);
    return is_on_one_host;
}

Status DeviceOperations::attach_joins(std::span<Operation* const> operations) const {
    for (Operation* operation : operations) {
        if (operation->signature.kind != Kind::join) {
            continue;
        }
        const auto staged = std::exchange(operation->staged, nullptr);
        if (devices_ == nullptr) {
            continue;
        }
        try {
            if (staged != nullptr) {
                devices_->attach(staged->place.index);
            }
        } catch (const Exception& exception) {
            return Error(exception.error()).context("join");
        }
        const int index = staged != nullptr ? staged->place.index : devices_->first_attached();
        if (index >= 0) {
            operation->signature.device = {.kind = coll::Device::Kind::cuda, .index = index};
        }
    }
    return ok();
}

Status DeviceOperations::prepare(std::span<Operation* const> operations) const {
    HVD_TRY_STATUS(attach_joins(operations));
    if (devices_ == nullptr) {
        return ok();
    }
    coll::SharedEvent last;  // of a call's tensors on one stream one event is enough
    coll::DevicePlace last_place;
    for (Operation* operation : operations) {
        if (operation->staged != nullptr && can_stay(*operation)) {
            operation->on_device = std::make_unique<OnDevice>(
                OnDevice{.devices = devices_, .place = operation->staged->place});
            operation->staged.reset();
            operation->signature.device = {.kind = coll::Device::Kind::cuda,
                                           .index = operation->on_device->place.index};
        }
        if (operation->on_device == nullptr) {
            continue;
        }
        auto& mine = *operation->on_device;
        try {
            devices_->attach(mine.place.index);
            if (last == nullptr || mine.place.index != last_place.index ||
                mine.place.stream != last_place.stream || mine.place.event != last_place.event) {
                last = devices_->ready(mine.place);
                last_place = mine.place;
            }
        } catch (const Exception& exception) {
            return Error(exception.error()).context("tensor '" + operation->name->text + "'");
        }
        mine.ready = last;
    }
    return ok();
}

Result<bool> wait_for_device(const coll::DeviceEvent& event,
                             Deadline deadline,
                             const std::function<Status()>& health) {
    try {
        auto pause = kFirstPause;
        for (int look = 0; !event.is_complete(); ++look) {
            if (deadline.has_passed()) {
                return false;
            }
            if (look >= kLooks) {
                std::this_thread::sleep_for(pause);
                pause = std::min(2 * pause, kLongestPause);
            }
        }
    } catch (const Exception& exception) {
        return exception.error();
    }
    HVD_TRY_STATUS(check_valid(event, health));
    return true;
}

Status hold_back_stream(std::span<Operation* const> operations,
                        void* stream,
                        const std::function<Status()>& health) {
    const coll::DeviceEvent* last = nullptr;
    for (const Operation* operation : operations) {
        const auto* const event = operation->event.get();
        if (event == nullptr || event == last) {
            continue;
        }
        HVD_TRY_STATUS(check_valid(*event, health));
        try {
            event->hold_back(stream);
        } catch (const Exception& exception) {
            return exception.error();
        }
        last = event;
    }
    return ok();
}

}  // namespace hvd::rt
