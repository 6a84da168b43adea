// SPDX-License-Identifier: Apache-2.0
//
// This process's MPI: found, loaded and started. What MPI_Init does is never undone before the
// process exits, so that worlds may come and go.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/mpi/communicator.hpp"
#include "collectives/mpi/loader.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace hvd::coll::mpi {

class Session {
public:
    struct Options {
        Environment environment;
        std::filesystem::path plugin_folder;
        bool wants_threads = true;           // MPI_THREAD_MULTIPLE, where we start MPI
        const void* communicator = nullptr;  // address of the user's MPI_Comm; else MPI_COMM_WORLD
    };

    /// Blocks as long as MPI_Init does: until all processes that mpirun started have called it. MPI
    /// cannot call it off: the process ends at the deadline (see Watch).
    /// Errors: unsupported, invalid_argument, internal; each with what to do.
    [[nodiscard]] static Result<std::unique_ptr<Session>> start(const Options& options,
                                                                Deadline deadline);

    /// The MPI that another part of this process has started, if this thread may call it; else
    /// nothing. Starts none and loads none.
    [[nodiscard]] static std::unique_ptr<Session> find(const Options& options);

    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() = default;

    /// A communicator of our own, of all ranks. Blocks until all call it. Errors: timed_out.
    [[nodiscard]] Result<Communicator> communicate(Deadline deadline) const;

    /// How many processes MPI_COMM_WORLD has, whatever the communicator is. Errors: internal.
    [[nodiscard]] Result<int> world_size() const;

    [[nodiscard]] const std::string& library() const noexcept { return library_.name; }

    /// Whether other threads may call MPI at the same time.
    [[nodiscard]] bool has_full_threads() const noexcept { return has_full_threads_; }

    /// A world has been left in order: MPI may end in order, too.
    void leave() const noexcept { library_.table->left_in_order(); }

private:
    Session(Library library, std::uint64_t communicator, bool has_full_threads)
        : library_(std::move(library)),
          communicator_(communicator),
          has_full_threads_(has_full_threads) {}

    Library library_;
    std::uint64_t communicator_;
    bool has_full_threads_;
};

}  // namespace hvd::coll::mpi
