// SPDX-License-Identifier: Apache-2.0
//
// The functions of one MPI library that this build calls, as C functions: the seam between the
// build and the two plugins, each of which is compiled against the headers of one MPI. MPI's own
// types differ between them, so that handles cross as numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd::coll::mpi {

/// The exported object of a plugin. The number changes with the table.
inline constexpr const char* kTableSymbol = "hvd_mpi_v2";

/// User operations that a process may have: `HvdMpiTable::allreduce` numbers them from 0.
inline constexpr std::size_t kUserOperations = 8;

extern "C" {

/// What MPI has been told so far, by whomever in this process.
struct HvdMpiState {
    int is_started;
    int is_finalized;
    int is_main_thread;  // this thread called MPI_Init; 0 while not started
    int may_serialize;   // MPI_THREAD_SERIALIZED at least
    int has_full_threads;
};

/// Combines the floats at `in` with those at `inout`, which keep the result, in either order.
using HvdMpiCombine = void (*)(const float* in, float* inout, int count);

/// Counts and offsets in bytes, one for each rank. They stay valid until the request is done.
struct HvdMpiLayout {
    const int* counts;
    const int* offsets;
};

/// Communicators and requests are numbers. Functions that return an int return MPI's error code;
/// 0 is success. Nothing blocks but start, subset and split_by_host.
struct HvdMpiTable {
    std::size_t bytes;  // of this struct
    const char* abi;    // "Open MPI" or "MPICH"

    int (*query)(HvdMpiState* state);
    /// MPI_Init_thread. The plugin then finalizes MPI when the process exits, if a world has been
    /// left in order by then, and none had to be given up.
    int (*start)(int full_threads);
    void (*left_in_order)();
    void (*given_up)();

    std::uint64_t (*world)();
    /// The communicator in a variable of type MPI_Comm; 0 for MPI_COMM_NULL.
    std::uint64_t (*communicator_at)(const void* address);
    int (*rank_and_size)(std::uint64_t communicator, int* rank, int* size);
    /// Begins to make a new communicator. `result` stays valid until the request is done, and is
    /// then the communicator, to `adopt`.
    int (*duplicate)(std::uint64_t communicator, std::uint64_t* result, std::uint64_t* request);
    /// From now on it returns errors instead of ending the process.
    int (*adopt)(std::uint64_t communicator);
    /// A new communicator of some ranks, which alone call it.
    int (*subset)(std::uint64_t communicator,
                  const int* ranks,
                  int size,
                  int tag,
                  std::uint64_t* result);
    /// One of the ranks that can share memory with this one.
    int (*split_by_host)(std::uint64_t communicator, std::uint64_t* result);
    int (*release)(std::uint64_t communicator);

    int (*alltoall)(const void* in,
                    HvdMpiLayout from,
                    void* out,
                    HvdMpiLayout to,
                    std::uint64_t communicator,
                    std::uint64_t* request);
    /// The own part lies in `out` already.
    int (*allgather)(void* out,
                     HvdMpiLayout to,
                     std::uint64_t communicator,
                     std::uint64_t* request);
    int (*broadcast)(void* data,
                     int bytes,
                     int root,
                     std::uint64_t communicator,
                     std::uint64_t* request);
    /// In place, by a user operation of MPI that combines as told: a number stands for one function
    /// for as long as the process lives.
    int (*allreduce)(float* data,
                     int count,
                     int operation,
                     HvdMpiCombine combine,
                     std::uint64_t communicator,
                     std::uint64_t* request);
    int (*barrier)(std::uint64_t communicator, std::uint64_t* request);

    /// One message from rank to rank. Those with the same ranks and tag arrive in order.
    int (*send)(const void* data,
                int bytes,
                int to,
                int tag,
                std::uint64_t communicator,
                std::uint64_t* request);
    int (*recv)(void* data,
                int bytes,
                int from,
                int tag,
                std::uint64_t communicator,
                std::uint64_t* request);
    /// Of a `recv`: whether it has been called off is seen by `test`, which is then soon done.
    int (*cancel)(std::uint64_t* request);
    int (*largest_tag)(int* tag);

    int (*test)(std::uint64_t* request, int* is_done);

    /// The library's name and version; `text` ends with a NUL.
    int (*describe)(char* text, std::size_t bytes);
    void (*describe_error)(int code, char* text, std::size_t bytes);
};

}  // extern "C"

}  // namespace hvd::coll::mpi
