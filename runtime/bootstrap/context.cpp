// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/context.hpp"

#include "collectives/base/env.hpp"
#include "collectives/cuda/factory.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/launcher_record.hpp"

#include <utility>

#include <pthread.h>

namespace hvd::rt {
namespace {

// Finishing what all ranks have begun may take this long; then it is given up.
constexpr std::chrono::seconds kSetsLimit{30};
constexpr std::chrono::seconds kShutdownLimit{5};
constexpr std::chrono::seconds kReportLimit{1};

Error not_in_world() {
    return {Errc::unavailable, "there is no world: call hvd_init (hvd.init()) first"};
}

Error in_forked_child() {
    return {Errc::unavailable,
            "this is a forked child of a rank: only its topology can be asked for here"};
}

}  // namespace

Context& Context::process() {
    // Leaked on purpose: the engine's thread and the users' threads may live until the process
    // ends.
    static auto* const context = new Context;
    return *context;
}

Context::Context()
    : devices_(coll::cuda::make_device_tensors()),
      staging_(coll::cuda::make_staging(devices_.get())) {
    tickets_.set_devices(devices_.get());
    // Only flags and closes here: a lock may be held by a thread that the child does not have.
    // Where there was no world, the child may start one.
    (void)pthread_atfork(nullptr, nullptr, [] {
        auto& self = Context::process();
        self.is_forked_child_.store(self.engaged_.load(std::memory_order_relaxed),
                                    std::memory_order_relaxed);
        if (const World* world = self.world_.load(std::memory_order_relaxed)) {
            world->close_in_child();
        }
    });
}

/// All ranks name the same sets, and add them in the same order.
Status Context::add_sets(World& world, const InitOptions& options) {
    const auto deadline = Deadline::in(options.timeout.value_or(kSetsLimit));
    for (const auto& ranks : options.process_sets) {
        HVD_TRY(const auto added, world.membership().add(ranks, deadline));
        if (!added.is_new) {
            return Error{Errc::invalid_argument,
                         "hvd_init: two process sets with the same ranks, or "
                         "with those of the world"};
        }
        if (added.outcome == Outcome::in_progress) {
            return Error{Errc::timed_out,
                         "hvd_init: other ranks have not named their process sets in time"};
        }
    }
    return ok();
}

Status Context::init(const InitOptions& options) {
    if (is_forked_child_.load(std::memory_order_relaxed)) {
        return in_forked_child();
    }
    const std::lock_guard lock(mutex_);
    if (owned_) {
        return ok();
    }
    engaged_.store(true, std::memory_order_relaxed);
    auto world = World::join({.environment = coll::current_innermost_environment(),
                              .timeout = options.timeout,
                              .generation = generation_,
                              .mpi_communicator = options.mpi_communicator,
                              .has_dynamic_sets = options.has_dynamic_sets,
                              .staging = staging_.get(),
                              .devices = devices_.get()},
                             tickets_);
    if (!world) {
        engaged_.store(false, std::memory_order_relaxed);
        return std::move(world).error();
    }
    if (auto added = add_sets(**world, options); !added) {
        (*world)->leave(Deadline::in(kShutdownLimit));
        engaged_.store(false, std::memory_order_relaxed);
        return added;
    }
    owned_ = std::move(world).value();
    topology_ = owned_->topology();
    has_topology_.store(true, std::memory_order_release);
    world_.store(owned_.get(), std::memory_order_seq_cst);
    return ok();
}

Status Context::shutdown() {
    if (is_forked_child_.load(std::memory_order_relaxed)) {
        return in_forked_child();
    }
    const std::lock_guard lock(mutex_);
    if (!owned_) {
        return ok();
    }
    if (owned_->engine().is_inside()) {
        return Error{Errc::invalid_argument, "a callback must not shut the runtime down"};
    }
    // From here on new calls are refused; calls that are running see their operations end.
    has_topology_.store(false, std::memory_order_relaxed);
    world_.store(nullptr, std::memory_order_seq_cst);
    owned_->leave(Deadline::in(kShutdownLimit));
    for (int users = users_.load(std::memory_order_seq_cst); users != 0;
         users = users_.load(std::memory_order_seq_cst)) {
        users_.wait(users);
    }
    owned_.reset();
    engaged_.store(false, std::memory_order_relaxed);
    return ok();
}

Result<coll::Topology> Context::topology() const {
    if (!has_topology_.load(std::memory_order_acquire)) {
        return not_in_world();
    }
    return topology_;
}

Result<Context::Use> Context::use() {
    if (is_forked_child_.load(std::memory_order_relaxed)) {
        return in_forked_child();
    }
    users_.fetch_add(1, std::memory_order_seq_cst);
    World* world = world_.load(std::memory_order_seq_cst);
    Use use(this, world);
    if (world == nullptr) {
        return not_in_world();
    }
    return use;
}

Context::Use::~Use() {
    if (context_ != nullptr && context_->users_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        context_->world_.load(std::memory_order_seq_cst) == nullptr) {
        context_->users_.notify_all();
    }
}

Result<TicketTable*> Context::tickets() {
    if (is_forked_child_.load(std::memory_order_relaxed)) {
        return in_forked_child();
    }
    return &tickets_;
}

Status Context::report(coll::ReportKind kind, int peer, std::string_view text) {
    if (is_forked_child_.load(std::memory_order_relaxed)) {
        return in_forked_child();
    }
    if (auto world = use()) {
        return (*world)->report(kind, peer, text);
    }
    const auto environment = coll::current_innermost_environment();
    if (!find(environment, coll::kEnvAgentSocket)) {
        return ok();  // nobody to tell
    }
    HVD_TRY(const auto contract, coll::decode_launch_contract(environment));
    HVD_TRY(const auto agent, coll::AgentStore::connect(contract, Deadline::in(kReportLimit)));
    return agent->report(kind, peer, text);
}

}  // namespace hvd::rt
