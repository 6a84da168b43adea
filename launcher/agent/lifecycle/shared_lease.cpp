// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/shared_lease.hpp"

#include <new>

#include <sys/mman.h>

namespace hvd::launch::agent {

SharedLease::SharedLease() {
    void* page =
        ::mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        end_ns_.reset(new (page) Word(0));
    }
}

void SharedLease::Unmap::operator()(Word* word) const noexcept {
    (void)::munmap(word, sizeof(Word));
}

void SharedLease::post(std::optional<TimePoint> end) noexcept {
    if (end_ns_) {
        const auto since = end ? end->time_since_epoch() : TimePoint::duration(0);
        end_ns_->store(std::chrono::nanoseconds(since).count());
    }
}

std::optional<SharedLease::TimePoint> SharedLease::end() const noexcept {
    const auto end_ns = end_ns_ ? end_ns_->load() : 0;
    return end_ns == 0 ? std::nullopt : std::optional(TimePoint(std::chrono::nanoseconds(end_ns)));
}

bool HungAgent::is_certain(std::optional<TimePoint> lease_end, TimePoint now) noexcept {
    if (!lease_end || now < *lease_end + kAgentsTime) {
        suspected_.reset();
        next_look_ = lease_end ? std::optional(*lease_end + kAgentsTime) : std::nullopt;
        return false;
    }
    if (suspected_ == lease_end && next_look_ && now >= *next_look_) {
        return true;
    }
    if (suspected_ != lease_end) {
        suspected_ = lease_end;
        next_look_ = now + kSecondLook;
    }
    return false;
}

}  // namespace hvd::launch::agent
