// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/local_group.hpp"

#include <bit>
#include <cstring>
#include <new>

namespace hvd::coll {
namespace {

constexpr std::align_val_t kPage{4096};

constexpr std::uint64_t bit_of(int rank) noexcept {
    return std::uint64_t{1} << static_cast<unsigned>(rank);
}

}  // namespace

void SharedHost::Free::operator()(std::byte* pages) const noexcept {
    ::operator delete(pages, kPage);
}

SharedHost::SharedHost(int ranks, std::size_t segment_bytes)
    : size(ranks),
      bytes(segment_bytes),
      memory(static_cast<std::byte*>(::operator new(segment_bytes, kPage))) {
    std::memset(memory.get(), 0, bytes);
    for (int rank = 0; rank < ranks; ++rank) {
        wakeups.push_back(sim::make_event());
        pidfds.push_back(sim::make_event());
    }
}

void LocalGroup::drain() const noexcept {
    sim::event_read(wakeup_descriptor());
}

void LocalGroup::about_to_sleep() noexcept {
    sim::trace([] { return std::string("asks to be notified"); });
    (void)host_.asleep.fetch_or(bit_of(rank_));
    rt::shared_fence();
}

void LocalGroup::awake() noexcept {
    sim::trace([] { return std::string("is awake"); });
    (void)host_.asleep.fetch_and(~bit_of(rank_));
}

void LocalGroup::notify(int rank) noexcept {
    rt::shared_fence();
    if ((host_.asleep.load() & bit_of(rank)) == 0) {
        return;
    }
    if ((host_.asleep.fetch_and(~bit_of(rank)) & bit_of(rank)) != 0) {
        notify_always(rank);
    }
}

void LocalGroup::notify_others() noexcept {
    rt::shared_fence();
    auto asleep = host_.asleep.load();
    for (; asleep != 0; asleep &= asleep - 1) {
        const int rank = std::countr_zero(asleep);
        if (rank != rank_) {
            notify(rank);
        }
    }
}

void LocalGroup::notify_always(int rank) const noexcept {
    sim::trace([&] { return "notifies rank " + std::to_string(rank); });
    sim::event_write(host_.wakeups[static_cast<std::size_t>(rank)]);
}

}  // namespace hvd::coll
