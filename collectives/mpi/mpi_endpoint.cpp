// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/mpi_endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace hvd::coll::mpi {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;
constexpr int kIds = 65'536;  // tags for ids; beyond them come those of later incarnations

/// Sets that are open at the same time have different tags; one that has had the id before had
/// another one, if MPI has enough of them. The second half of the tags is for parts of sets, whose
/// ids are negative.
[[nodiscard]] int tag_of(const ProcessSet& set, int largest_tag) {
    const int turns = largest_tag / kIds;
    const int sets = std::min(largest_tag, kIds) / 2;
    const int set_id = set.id < 0 ? -1 - set.id : set.id;
    if (set_id >= sets) {
        throw Exception(Error{Errc::unsupported, "process set " + std::to_string(set_id) +
                                                     ": this MPI tells " + std::to_string(sets) +
                                                     " sets from each other"});
    }
    const auto turn =
        turns == 0 ? 0 : static_cast<int>(set.incarnation % static_cast<unsigned>(turns));
    return set_id + (set.id < 0 ? sets : 0) + turn * kIds;
}

}  // namespace

MpiEndpoint::MpiEndpoint(State& state, const ProcessSet& set)
    : state_(state),
      ranks_(set.ranks),
      place_(set.place),
      tag_(tag_of(set, state.communicator.largest_tag())),
      out_(ranks_.size()),
      in_(ranks_.size()) {}

MpiEndpoint::~MpiEndpoint() {
    if (!cause_) {
        abort({Errc::aborted, "the process set was given up"});
    }
}

void MpiEndpoint::send(int place, std::span<const std::byte> bytes) {
    auto& message = out_[static_cast<std::size_t>(place)];
    message.list.append(bytes.data(), bytes.size());
    message.is_due = true;
}

void MpiEndpoint::recv(int place, std::span<std::byte> bytes) {
    auto& message = in_[static_cast<std::size_t>(place)];
    message.list.append(bytes.data(), bytes.size());
    message.is_due = true;
}

Result<bool> MpiEndpoint::wait() {
    if (cause_ || state_.cause) {
        return Error(cause_ ? *cause_ : *state_.cause);
    }
    bool is_over = true;
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
        HVD_TRY_STATUS(advance(in_[place], ranks_[place]));
        HVD_TRY_STATUS(advance(out_[place], ranks_[place]));
        is_over = is_over && !in_[place].is_due && !out_[place].is_due;
    }
    if (is_over) {
        state_.alarm.clear();  // another set that waits sets it again when it is polled
    } else {
        state_.alarm.set();
    }
    return is_over;
}

template <class List>
void MpiEndpoint::begin_part(Message<List>& message) const {
    message.end = std::min(message.begin + kPartBytes, message.list.bytes());
    if (!message.memory) {
        message.memory = std::make_unique<std::vector<std::byte>>(message.end - message.begin);
    }
}

template <class List>
Result<bool> MpiEndpoint::is_part_over(Message<List>& message) const {
    HVD_TRY(const bool is_over, state_.communicator.test(message.request));
    message.is_in_flight = !is_over;
    return is_over;
}

template <class List>
void MpiEndpoint::end_part(Message<List>& message) const {
    message.begin = message.end;
    if (message.begin == message.list.bytes()) {
        message.list.clear();
        message.memory.reset();
        message.begin = 0;
        message.is_due = false;
    }
}

Status MpiEndpoint::advance(Message<InList>& message, int rank) {
    while (message.is_due) {
        if (message.is_in_flight) {
            HVD_TRY(const bool is_over, is_part_over(message));
            if (!is_over) {
                return ok();
            }
            end_part(message);
            continue;
        }
        begin_part(message);
        auto* const memory = message.memory->data();
        message.list.for_each(message.begin, message.end,
                              [&](const std::byte* from, std::size_t bytes, std::size_t offset) {
                                  std::memcpy(memory + offset, from, bytes);
                              });
        HVD_TRY(message.request,
                state_.communicator.send({memory, message.end - message.begin}, rank, tag_));
        message.is_in_flight = true;
    }
    return ok();
}

Status MpiEndpoint::advance(Message<OutList>& message, int rank) {
    while (message.is_due) {
        if (message.is_in_flight) {
            HVD_TRY(const bool is_over, is_part_over(message));
            if (!is_over) {
                return ok();
            }
            const auto* const memory = message.memory->data();
            message.list.for_each(message.begin, message.end,
                                  [&](std::byte* to, std::size_t bytes, std::size_t offset) {
                                      std::memcpy(to, memory + offset, bytes);
                                  });
            end_part(message);
            continue;
        }
        begin_part(message);
        HVD_TRY(message.request,
                state_.communicator.recv({message.memory->data(), message.end - message.begin},
                                         rank, tag_));
        message.is_in_flight = true;
    }
    return ok();
}

void MpiEndpoint::abort(const Error& cause) noexcept {
    cause_ = cause;
    // Where a rank is gone, nothing of MPI is called any more.
    const bool may_call = cause.code == Errc::aborted && !state_.cause;
    bool is_unfinished = false;
    for (auto& message : in_) {
        if (message.is_in_flight && !(may_call && state_.communicator.cancel(message.request))) {
            (void)message.memory.release();  // MPI may write it whenever it likes
            is_unfinished = true;
        }
    }
    for (auto& message : out_) {
        if (message.is_in_flight) {
            (void)message.memory.release();  // MPI may read it
            is_unfinished = true;
        }
    }
    in_.clear();
    out_.clear();
    in_.resize(ranks_.size());
    out_.resize(ranks_.size());
    if (is_unfinished) {
        state_.communicator.leave_unfinished();
    }
}

}  // namespace hvd::coll::mpi
