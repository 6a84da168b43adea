// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/communicator.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/mpi/watch.hpp"

#include <array>
#include <string>
#include <utility>

#include <sched.h>

namespace hvd::coll::mpi {

namespace {

constexpr std::string_view kOthersHaveNotCome =
    "not all ranks of the communicator have come: look at the others, or raise "
    "HOROVOD_START_TIMEOUT";

Error late(std::string_view what, std::string_view reason) {
    return {Errc::timed_out, std::string(what) + " has not ended in time: " + std::string(reason)};
}

}  // namespace

Error mpi_error(const HvdMpiTable& table, int code, std::string_view what) {
    std::array<char, 512> text{};
    table.describe_error(code, text.data(), text.size());
    return {Errc::internal, std::string(what) + ": " + table.abi + " says: " + text.data()};
}

void Layout::append(std::size_t bytes) {
    counts.push_back(static_cast<int>(bytes));
    offsets.push_back(static_cast<int>(end_));
    end_ += bytes;
}

void Layout::clear() {
    counts.clear();
    offsets.clear();
    end_ = 0;
}

Communicator::Communicator(Communicator&& other) noexcept
    : table_(other.table_),
      handle_(std::exchange(other.handle_, 0)),
      rank_(other.rank_),
      size_(other.size_),
      from_(std::move(other.from_)),
      to_(std::move(other.to_)),
      request_(other.request_),
      is_in_flight_(std::exchange(other.is_in_flight_, false)),
      is_unfinished_(other.is_unfinished_) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(handle_, other.handle_);
    std::swap(rank_, other.rank_);
    std::swap(size_, other.size_);
    std::swap(from_, other.from_);
    std::swap(to_, other.to_);
    std::swap(request_, other.request_);
    std::swap(is_in_flight_, other.is_in_flight_);
    std::swap(is_unfinished_, other.is_unfinished_);
    return *this;
}

Communicator::~Communicator() {
    if (handle_ == 0) {
        return;
    }
    HvdMpiState state{};
    if (is_in_flight_ || is_unfinished_ || table_->query(&state) != 0 || state.is_finalized != 0) {
        return;  // nothing of MPI may be called any more
    }
    (void)table_->release(handle_);
}

Result<Communicator> Communicator::adopt_new(const HvdMpiTable* table,
                                             int code,
                                             std::uint64_t handle,
                                             std::string_view what) {
    if (code != 0) {
        return mpi_error(*table, code, what);
    }
    Communicator made(table, handle);
    if (const int asked = table->adopt(handle); asked != 0) {
        return mpi_error(*table, asked, "MPI_Comm_set_errhandler");
    }
    if (const int asked = table->rank_and_size(handle, &made.rank_, &made.size_); asked != 0) {
        return mpi_error(*table, asked, "MPI_Comm_rank");
    }
    return made;
}

Result<Communicator> Communicator::duplicate(const Library& library,
                                             std::uint64_t handle,
                                             Deadline deadline) {
    auto made = std::make_unique<std::uint64_t>();
    std::uint64_t request = 0;
    int is_done = 0;
    int code = library.table->duplicate(handle, made.get(), &request);
    while (code == 0 && is_done == 0) {
        code = library.table->test(&request, &is_done);
        if (is_done == 0 && deadline.has_passed()) {
            library.table->given_up();
            (void)made.release();  // MPI may write it whenever it likes
            return late("MPI_Comm_idup", kOthersHaveNotCome);
        }
        (void)::sched_yield();
    }
    return adopt_new(library.table, code, *made, "MPI_Comm_idup");
}

Result<Communicator> Communicator::subset(std::span<const int> ranks,
                                          int tag,
                                          Deadline deadline) const {
    const Watch watch(deadline, "MPI_Comm_create_group", kOthersHaveNotCome);
    std::uint64_t made = 0;
    const int code =
        table_->subset(handle_, ranks.data(), static_cast<int>(ranks.size()), tag, &made);
    return adopt_new(table_, code, made, "MPI_Comm_create_group");
}

Result<Communicator> Communicator::of_this_host(Deadline deadline) const {
    const Watch watch(deadline, "MPI_Comm_split_type", kOthersHaveNotCome);
    std::uint64_t made = 0;
    const int code = table_->split_by_host(handle_, &made);
    return adopt_new(table_, code, made, "MPI_Comm_split_type");
}

Status Communicator::begun(int code, std::string_view what) {
    if (code != 0) {
        return mpi_error(*table_, code, what);
    }
    is_in_flight_ = true;
    return ok();
}

Status Communicator::alltoall(const std::byte* in, Layout from, std::byte* out, Layout to) {
    HVD_ASSERT(!is_in_flight_, "one collective of a communicator at a time");
    from_ = std::move(from);
    to_ = std::move(to);
    return begun(table_->alltoall(in, {from_.counts.data(), from_.offsets.data()}, out,
                                  {to_.counts.data(), to_.offsets.data()}, handle_, &request_),
                 "MPI_Ialltoallv");
}

Status Communicator::allgather(std::byte* out, Layout to) {
    HVD_ASSERT(!is_in_flight_, "one collective of a communicator at a time");
    to_ = std::move(to);
    return begun(
        table_->allgather(out, {to_.counts.data(), to_.offsets.data()}, handle_, &request_),
        "MPI_Iallgatherv");
}

Status Communicator::broadcast(std::span<std::byte> data, int root) {
    HVD_ASSERT(!is_in_flight_, "one collective of a communicator at a time");
    return begun(
        table_->broadcast(data.data(), static_cast<int>(data.size()), root, handle_, &request_),
        "MPI_Ibcast");
}

Status Communicator::allreduce(std::span<float> data, ReduceOp op, HvdMpiCombine combine) {
    HVD_ASSERT(!is_in_flight_, "one collective of a communicator at a time");
    return begun(table_->allreduce(data.data(), static_cast<int>(data.size()), static_cast<int>(op),
                                   combine, handle_, &request_),
                 "MPI_Iallreduce");
}

Status Communicator::barrier() {
    HVD_ASSERT(!is_in_flight_, "one collective of a communicator at a time");
    return begun(table_->barrier(handle_, &request_), "MPI_Ibarrier");
}

Result<bool> Communicator::is_done() {
    if (!is_in_flight_) {
        return true;
    }
    int done = 0;
    if (const int code = table_->test(&request_, &done); code != 0) {
        return mpi_error(*table_, code, "MPI_Test");
    }
    is_in_flight_ = done == 0;
    return done != 0;
}

Status Communicator::wait(Deadline deadline, std::string_view what) {
    while (true) {
        HVD_TRY(const bool is_over, is_done());
        if (is_over) {
            return ok();
        }
        if (deadline.has_passed()) {
            give_up();
            return late(what, kOthersHaveNotCome);
        }
        (void)::sched_yield();
    }
}

Result<std::uint64_t> Communicator::send(std::span<const std::byte> bytes, int to, int tag) {
    std::uint64_t request = 0;
    if (const int code =
            table_->send(bytes.data(), static_cast<int>(bytes.size()), to, tag, handle_, &request);
        code != 0) {
        return mpi_error(*table_, code, "MPI_Isend");
    }
    return request;
}

Result<std::uint64_t> Communicator::recv(std::span<std::byte> bytes, int from, int tag) {
    std::uint64_t request = 0;
    if (const int code = table_->recv(bytes.data(), static_cast<int>(bytes.size()), from, tag,
                                      handle_, &request);
        code != 0) {
        return mpi_error(*table_, code, "MPI_Irecv");
    }
    return request;
}

Result<bool> Communicator::test(std::uint64_t& request) {
    int done = 0;
    if (const int code = table_->test(&request, &done); code != 0) {
        return mpi_error(*table_, code, "MPI_Test");
    }
    return done != 0;
}

bool Communicator::cancel(std::uint64_t& request) noexcept {
    constexpr int kTries = 1000;  // it is local, and soon over
    int done = 0;
    if (handle_ == 0 || table_->cancel(&request) != 0) {
        return false;
    }
    for (int tries = 0; tries < kTries && done == 0; ++tries) {
        if (table_->test(&request, &done) != 0) {
            return false;
        }
    }
    return done != 0;
}

int Communicator::largest_tag() const noexcept {
    int tag = 0;
    (void)table_->largest_tag(&tag);
    return tag;
}

void Communicator::give_up() noexcept {
    table_->given_up();
    handle_ = 0;
}

}  // namespace hvd::coll::mpi
