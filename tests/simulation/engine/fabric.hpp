// SPDX-License-Identifier: Apache-2.0
//
// The backend of a simulated world. It moves no byte before every member of a set has started the
// same task, which it compares, and ends at another time on each rank.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/reactor.hpp"
#include "tests/simulation/engine/system.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace hvd::sim {

struct FabricTraits {
    std::size_t fusion_bytes = 1024;
    int max_in_flight = 1;
    bool gathers = true;
    bool enqueues = false;     // a Work says so before it is done
    unsigned longest_us = 20;  // from the last start to the end
};

/// The operation that a tensor belongs to, so that a wrong partner is seen. 0 is any.
using TensorId = std::uint64_t;

/// All collectives of a world, of all ranks.
class Fabric {
public:
    explicit Fabric(const FabricTraits& traits) : traits_(traits) {}

    /// The operation of a later task with this input.
    void name_input(int rank, const std::byte* in, TensorId id, int process_set);

    struct Start {
        int rank = 0;
        coll::Task task;
        std::vector<TensorId> ids;  // of the segments
        std::string text;           // what must be equal on all members
        std::vector<std::byte> result;
        std::shared_ptr<EventFile> wakeup;
    };
    struct Collective {
        std::vector<std::unique_ptr<Start>> starts;  // by place
        int missing = 0;
        std::vector<Time> ends;  // by place, once all have started
    };

    /// Compares with what the other members have started as their task number `number`.
    Collective& start(const coll::ProcessSet& set,
                      std::size_t number,
                      std::unique_ptr<Start> start);

    [[nodiscard]] const FabricTraits& traits() const noexcept { return traits_; }
    [[nodiscard]] TensorId id_of(int rank, const std::byte* in, int process_set) const;

private:
    struct Named {
        TensorId id = 0;
        int process_set = 0;
    };

    FabricTraits traits_;
    /// By set, incarnation and number.
    std::map<std::tuple<int, std::uint32_t, std::size_t>, Collective> collectives_;
    std::map<std::pair<int, const std::byte*>, Named> named_;  // by rank and input
};

/// One rank's way to it.
class SimBackend final : public coll::Backend {
public:
    SimBackend(int rank, Fabric& fabric, coll::Reactor& reactor);

    [[nodiscard]] std::string_view name() const noexcept override { return "simulated"; }
    [[nodiscard]] int score(const coll::Task& /*task*/,
                            const coll::ProcessSet& /*set*/) const noexcept override {
        return 1;
    }
    [[nodiscard]] std::size_t fusion_bytes() const noexcept override {
        return fabric_.traits().fusion_bytes;
    }
    [[nodiscard]] bool is_like_local_result() const noexcept override { return true; }
    [[nodiscard]] int max_in_flight() const noexcept override {
        return fabric_.traits().max_in_flight;
    }
    [[nodiscard]] std::unique_ptr<coll::Communicator> open(const coll::ProcessSet& set,
                                                           coll::Device device) override;

private:
    int rank_;
    Fabric& fabric_;
    std::shared_ptr<EventFile> wakeup_;
};

}  // namespace hvd::sim
