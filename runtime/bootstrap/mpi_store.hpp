// SPDX-License-Identifier: Apache-2.0
//
// MPI as a key-value store: a broadcast carries rank 0's text. It is used while a world comes
// together, and never after that.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "collectives/launch_contract/external_launch.hpp"
#include "runtime/bootstrap/key_value_store.hpp"
#include "runtime/bootstrap/mpi_world.hpp"
#include "runtime/engine/config.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::rt {

/// Of the ranks of a communicator, all of which put or get in the same order.
class MpiKeyValueStore final : public KeyValueStore {
public:
    explicit MpiKeyValueStore(coll::mpi::Communicator& all) : all_(all) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "MPI"; }
    [[nodiscard]] Status put(const std::string& key,
                             const std::string& text,
                             Deadline deadline) override;
    [[nodiscard]] Result<std::string> get(const std::string& key, Deadline deadline) override;
    void finish() override {}

private:
    coll::mpi::Communicator& all_;
};

/// The same of a launcher's ranks, opened when it is needed.
class LauncherMpi {
public:
    LauncherMpi(const EngineConfig& config, const Environment& environment)
        : config_(config), environment_(environment) {}

    /// Where the program has started MPI, which sees the launcher's world; else nothing. All ranks
    /// of a program are alike in that. Errors: timed_out, internal.
    [[nodiscard]] Result<KeyValueStore*> if_started(const coll::ExternalLaunch& launch,
                                                    Deadline deadline);

    /// Starts MPI for it, as `join_mpi` does. Errors: also unsupported.
    [[nodiscard]] Result<KeyValueStore*> start(const coll::ExternalLaunch& launch,
                                               Deadline deadline);

    /// What `start` has started, which a world then leaves in order; or nothing.
    [[nodiscard]] std::unique_ptr<coll::mpi::Session> take_session() {
        return mpi_ ? std::move(mpi_->session) : nullptr;
    }

private:
    [[nodiscard]] KeyValueStore* use(MpiWorld mpi);

    const EngineConfig& config_;
    const Environment& environment_;
    std::optional<MpiWorld> mpi_{};
    std::optional<MpiKeyValueStore> store_{};
};

}  // namespace hvd::rt
