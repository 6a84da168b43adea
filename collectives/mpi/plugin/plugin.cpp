// SPDX-License-Identifier: Apache-2.0
//
// Built twice: against Open MPI's mpi.h and against MPICH's. Links neither: the symbols come from
// the library that the loader has made global in this process. No decisions here.
#include "collectives/mpi/table.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <unistd.h>

#if defined(HVD_MPI_OPENMPI) && !defined(OPEN_MPI)
#error "the plugin for Open MPI needs Open MPI's mpi.h"
#endif
#if defined(HVD_MPI_MPICH) && !defined(MPICH_NUMVERSION) && !defined(I_MPI_NUMVERSION)
#error "the plugin for MPICH needs the mpi.h of MPICH or of an MPI with its ABI"
#endif

namespace hvd::coll::mpi {
namespace {

#ifdef HVD_MPI_OPENMPI
constexpr const char* kAbi = "Open MPI";
#else
constexpr const char* kAbi = "MPICH";
#endif

// Of the process, like MPI itself; written by the thread that starts and leaves worlds.
pid_t owner = 0;  // the process that started MPI through this plugin
bool has_left_in_order = false;
bool is_given_up = false;

// Open MPI's handles are pointers, MPICH's are numbers.
// NOLINTBEGIN(bugprone-sizeof-expression)
template <class Handle>
std::uint64_t to_number(Handle handle) {
    static_assert(sizeof(Handle) <= sizeof(std::uint64_t));
    std::uint64_t number = 0;
    std::memcpy(&number, &handle, sizeof(handle));
    return number;
}

template <class Handle>
Handle from_number(std::uint64_t number) {
    Handle handle{};
    std::memcpy(&handle, &number, sizeof(handle));
    return handle;
}

// NOLINTEND(bugprone-sizeof-expression)

MPI_Comm communicator_of(std::uint64_t number) {
    return from_number<MPI_Comm>(number);
}

int query(HvdMpiState* state) {
    *state = {};
    int level = 0;
    int code = MPI_Initialized(&state->is_started);
    if (code == MPI_SUCCESS) {
        code = MPI_Finalized(&state->is_finalized);
    }
    if (code != MPI_SUCCESS || state->is_started == 0 || state->is_finalized != 0) {
        return code;
    }
    code = MPI_Query_thread(&level);
    state->may_serialize = level >= MPI_THREAD_SERIALIZED ? 1 : 0;
    state->has_full_threads = level >= MPI_THREAD_MULTIPLE ? 1 : 0;
    return code == MPI_SUCCESS ? MPI_Is_thread_main(&state->is_main_thread) : code;
}

void finalize() {
    HvdMpiState state{};
    if (owner == ::getpid() && has_left_in_order && !is_given_up && query(&state) == MPI_SUCCESS &&
        state.is_finalized == 0) {
        (void)MPI_Finalize();
    }
}

int start(int full_threads) {
    int level = 0;
    const int code = MPI_Init_thread(
        nullptr, nullptr, full_threads != 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &level);
    if (code == MPI_SUCCESS) {
        owner = ::getpid();
        (void)std::atexit(&finalize);
    }
    return code;
}

void left_in_order() {
    has_left_in_order = true;
}

void given_up() {
    is_given_up = true;
}

std::uint64_t world() {
    return to_number<MPI_Comm>(MPI_COMM_WORLD);
}

std::uint64_t communicator_at(const void* address) {
    MPI_Comm communicator = *static_cast<const MPI_Comm*>(address);
    return communicator == MPI_COMM_NULL ? 0 : to_number(communicator);
}

int rank_and_size(std::uint64_t communicator, int* rank, int* size) {
    const int code = MPI_Comm_rank(communicator_of(communicator), rank);
    return code == MPI_SUCCESS ? MPI_Comm_size(communicator_of(communicator), size) : code;
}

int duplicate(std::uint64_t communicator, std::uint64_t* result, std::uint64_t* request) {
    *result = to_number<MPI_Comm>(MPI_COMM_NULL);
    MPI_Request started = MPI_REQUEST_NULL;
    // MPI writes the handle when the request is done: the number is its bytes, as in to_number.
    const int code =
        MPI_Comm_idup(communicator_of(communicator), reinterpret_cast<MPI_Comm*>(result), &started);
    *request = to_number(started);
    return code;
}

int adopt(std::uint64_t communicator) {
    return MPI_Comm_set_errhandler(communicator_of(communicator), MPI_ERRORS_RETURN);
}

int subset(std::uint64_t communicator, const int* ranks, int size, int tag, std::uint64_t* result) {
    MPI_Group all = MPI_GROUP_NULL;
    int code = MPI_Comm_group(communicator_of(communicator), &all);
    if (code != MPI_SUCCESS) {
        return code;
    }
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    code = MPI_Group_incl(all, size, ranks, &some);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_group(communicator_of(communicator), some, tag, &made);
        (void)MPI_Group_free(&some);
    }
    (void)MPI_Group_free(&all);
    *result = to_number(made);
    return code;
}

int split_by_host(std::uint64_t communicator, std::uint64_t* result) {
    MPI_Comm made = MPI_COMM_NULL;
    const int code = MPI_Comm_split_type(communicator_of(communicator), MPI_COMM_TYPE_SHARED, 0,
                                         MPI_INFO_NULL, &made);
    *result = to_number(made);
    return code;
}

int release(std::uint64_t communicator) {
    auto handle = communicator_of(communicator);
    return MPI_Comm_free(&handle);
}

// Requests end in test(), which the checker does not connect with them.
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
int alltoall(const void* in,
             HvdMpiLayout from,
             void* out,
             HvdMpiLayout to,
             std::uint64_t communicator,
             std::uint64_t* request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Ialltoallv(in, from.counts, from.offsets, MPI_BYTE, out, to.counts,
                                    to.offsets, MPI_BYTE, communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

int allgather(void* out, HvdMpiLayout to, std::uint64_t communicator, std::uint64_t* request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, out, to.counts, to.offsets,
                                     MPI_BYTE, communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

int broadcast(void* data, int bytes, int root, std::uint64_t communicator, std::uint64_t* request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const int code =
        MPI_Ibcast(data, bytes, MPI_BYTE, root, communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

// An MPI_User_function has no argument for the caller's data, so there is one function for each
// operation's number.
std::array<HvdMpiCombine, kUserOperations> combines{};

template <std::size_t kNumber>
// NOLINTNEXTLINE(readability-non-const-parameter): the type is MPI's
void combine(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
    combines[kNumber](static_cast<const float*>(in), static_cast<float*>(inout), *count);
}

template <std::size_t... kNumbers>
constexpr std::array<MPI_User_function*, sizeof...(kNumbers)> functions(
    std::index_sequence<kNumbers...> /*unused*/) {
    return {&combine<kNumbers>...};
}

/// Made at first use, and MPI's until the process ends. Nothing here may throw: the library would
/// export all that exceptions need.
int find_operation(std::size_t number, HvdMpiCombine combine, MPI_Op* operation) {
    static constexpr auto kFunctions = functions(std::make_index_sequence<kUserOperations>());
    static std::array<MPI_Op, kUserOperations> made{};
    if (combines[number] == nullptr) {
        constexpr int kIsCommutative = 1;
        const int code = MPI_Op_create(kFunctions[number], kIsCommutative, &made[number]);
        if (code != MPI_SUCCESS) {
            return code;
        }
        combines[number] = combine;
    }
    *operation = made[number];
    return MPI_SUCCESS;
}

int allreduce(float* data,
              int count,
              int operation,
              HvdMpiCombine combine,
              std::uint64_t communicator,
              std::uint64_t* request) {
    MPI_Op made = MPI_OP_NULL;
    if (const int code = find_operation(static_cast<std::size_t>(operation), combine, &made);
        code != MPI_SUCCESS) {
        return code;
    }
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, made,
                                    communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

int barrier(std::uint64_t communicator, std::uint64_t* request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

int send(const void* data,
         int bytes,
         int to,
         int tag,
         std::uint64_t communicator,
         std::uint64_t* request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const int code =
        MPI_Isend(data, bytes, MPI_BYTE, to, tag, communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

int recv(void* data,
         int bytes,
         int from,
         int tag,
         std::uint64_t communicator,
         std::uint64_t* request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const int code =
        MPI_Irecv(data, bytes, MPI_BYTE, from, tag, communicator_of(communicator), &started);
    *request = to_number(started);
    return code;
}

// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

int cancel(std::uint64_t* request) {
    auto handle = from_number<MPI_Request>(*request);
    const int code = MPI_Cancel(&handle);
    *request = to_number(handle);
    return code;
}

int largest_tag(int* tag) {
    int* value = nullptr;
    int is_set = 0;
    const int code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &is_set);
    *tag = code == MPI_SUCCESS && is_set != 0 ? *value : 32767;  // what MPI grants
    return code;
}

int test(std::uint64_t* request, int* is_done) {
    auto handle = from_number<MPI_Request>(*request);
    const int code = MPI_Test(&handle, is_done, MPI_STATUS_IGNORE);
    *request = to_number(handle);
    return code;
}

void copy_line(const char* line, char* text, std::size_t bytes) {
    const auto length = std::min(std::strcspn(line, "\r\n"), bytes - 1);
    std::replace_copy(line, line + length, text, '\t', ' ');
    text[length] = '\0';
}

int describe(char* text, std::size_t bytes) {
    static std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> line;  // too large for a stack
    int length = 0;
    const int code = MPI_Get_library_version(line.data(), &length);
    copy_line(code == MPI_SUCCESS ? line.data() : kAbi, text, bytes);
    return code;
}

void describe_error(int code, char* text, std::size_t bytes) {
    std::array<char, MPI_MAX_ERROR_STRING> line{"unknown error"};
    int length = 0;
    (void)MPI_Error_string(code, line.data(), &length);
    copy_line(line.data(), text, bytes);
}

}  // namespace

extern "C" {

// NOLINTNEXTLINE(readability-identifier-naming): kTableSymbol
__attribute__((visibility("default"))) extern const HvdMpiTable hvd_mpi_v2;

const HvdMpiTable hvd_mpi_v2{
    .bytes = sizeof(HvdMpiTable),
    .abi = kAbi,
    .query = &query,
    .start = &start,
    .left_in_order = &left_in_order,
    .given_up = &given_up,
    .world = &world,
    .communicator_at = &communicator_at,
    .rank_and_size = &rank_and_size,
    .duplicate = &duplicate,
    .adopt = &adopt,
    .subset = &subset,
    .split_by_host = &split_by_host,
    .release = &release,
    .alltoall = &alltoall,
    .allgather = &allgather,
    .broadcast = &broadcast,
    .allreduce = &allreduce,
    .barrier = &barrier,
    .send = &send,
    .recv = &recv,
    .cancel = &cancel,
    .largest_tag = &largest_tag,
    .test = &test,
    .describe = &describe,
    .describe_error = &describe_error,
};

}  // extern "C"

}  // namespace hvd::coll::mpi
